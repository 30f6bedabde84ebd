//! Opens a conversation with a server, at the first address that answers.
//!
//! A name may have several addresses, and some addresses may be dead: IPv6 without a route, a pod that is gone, a server
//! that hangs. All addresses are tried in the resolver's order, side by side, with a staggered start ("Happy Eyeballs",
//! RFC 8305). Every try has the whole connect timeout, from the first packet to the answers of the server: a machine may
//! take connections for a process that hangs.

use std::io;
#[cfg(test)]
use std::net::IpAddr;
use std::net::SocketAddr;

use futures::FutureExt;
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::Error;
use crate::address::Address;
use crate::link::Settings;
use crate::transport::{self, Place};
use crate::turns::first_answer;
use crate::wire::Wire;

/// Opens connections to the server's addresses, and has `talk` speak on all of them. Returns the first result.
pub(crate) async fn reach<T, Talk>(
    address: &Address,
    settings: &Settings,
    talk: impl Fn(Wire) -> Talk + Sync,
) -> Result<T, Error>
where
    T: Send,
    Talk: Future<Output = Result<T, Error>> + Send,
{
    let places = places(address, settings).await?;
    let talks = places.iter().map(|place| at(place, settings, &talk).boxed()).collect();
    let (_, told) = first_answer(talks, settings.connect_timeout).await?;
    Ok(told)
}

/// The source of the addresses of names.
#[derive(Clone, Debug, Default)]
pub(crate) enum Names {
    #[default]
    System,
    /// All names have these addresses.
    #[cfg(test)]
    Fixed(Vec<IpAddr>),
}

impl Names {
    async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => Ok(lookup_host((host, port)).await?.collect()),
            #[cfg(test)]
            Self::Fixed(addresses) => Ok(match host.parse() {
                Ok(address) => vec![SocketAddr::new(address, port)],
                Err(_) => addresses.iter().map(|&address| SocketAddr::new(address, port)).collect(),
            }),
        }
    }
}

/// The places where the server may listen: at least one.
async fn places(address: &Address, settings: &Settings) -> Result<Vec<Place>, Error> {
    let (host, port) = match address {
        Address::Unix(path) => return Ok(vec![Place::Unix(path.clone())]),
        Address::Tcp(host, port) => (host, *port),
    };
    let failed = |kind, why: &dyn std::fmt::Display| {
        let what = format!("the name {host} cannot be resolved: {why}");
        Error::Unreachable(io::Error::new(kind, what).into())
    };
    match timeout(settings.connect_timeout, settings.names.look_up(host, port)).await {
        Ok(Ok(found)) if found.is_empty() => Err(failed(io::ErrorKind::Other, &"it has no address")),
        Ok(Ok(found)) => Ok(found.into_iter().map(|address| Place::Tcp(host.clone(), address)).collect()),
        Ok(Err(error)) => Err(failed(error.kind(), &error)),
        Err(late) => Err(failed(io::ErrorKind::TimedOut, &late)),
    }
}

async fn at<T, Talk>(
    place: &Place,
    settings: &Settings,
    talk: &(impl Fn(Wire) -> Talk + Sync),
) -> Result<T, Error>
where
    Talk: Future<Output = Result<T, Error>> + Send,
{
    let (within, tls) = (settings.connect_timeout, settings.tls.as_ref());
    let said = async {
        let stream = transport::open(place, tls, within).await.map_err(Error::opening)?;
        talk(Wire::new(stream)).await
    };
    let late = |_| Err(Error::not_made_within(within, tls.is_some()));
    let said = timeout(within, said).await.unwrap_or_else(late);
    said.map_err(|error| match (place, tls) {
        (Place::Unix(_), _) => error.during_setup(),
        (Place::Tcp(..), Some(_)) => {
            error.hinting("does it want a certificate (cert=, key=)?").during_setup()
        }
        (Place::Tcp(..), None) => error.hinting("is it a port for tls (rediss://)?").during_setup(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use redis::Value;
    use tenure_testing::tls::Authority;
    use tenure_testing::{Cluster, RedisServer, Sentinels};

    use super::*;
    use crate::{Class, Client, ClientBuilder};

    const SOON: Duration = Duration::from_secs(20);
    /// Together their parts of the time are longer than the time for one.
    const SILENT: u8 = 9;

    /// A name with ten addresses. Servers of this test listen at the last address. At the others, connections are taken and
    /// nobody speaks.
    fn names(port: u16) -> (Names, Vec<TcpListener>) {
        let silent = (0..SILENT).map(|number| Ipv4Addr::new(127, 0, 0, 2 + number));
        let listeners = silent.clone().map(|address| TcpListener::bind((address, port)).unwrap()).collect();
        (Names::Fixed(silent.chain([Ipv4Addr::LOCALHOST]).map(Into::into).collect()), listeners)
    }

    fn port(url: &str) -> u16 {
        let digits = url.rsplit(':').next().unwrap().split('/').next().unwrap();
        digits.parse().unwrap()
    }

    async fn answers(builder: ClientBuilder, port: u16) {
        let (names, _silent) = names(port);
        let client = builder.names(names).response_timeout(SOON).build().unwrap();
        let pong = client.commands().command(redis::cmd("ECHO").arg("here")).await.unwrap();
        assert_eq!(pong, Value::BulkString(b"here".to_vec()));
    }

    #[tokio::test]
    async fn one_server_is_found_behind_silent_addresses() {
        let server = RedisServer::builder().tcp().start().unwrap();
        let port = port(&server.url());
        answers(Client::builder(&format!("redis://many.example:{port}")), port).await;
    }

    #[tokio::test]
    async fn a_server_with_tls_is_found_behind_silent_addresses() {
        let authority = Authority::new().unwrap();
        let known = authority.issue(&["many.example"]).unwrap();
        let server = RedisServer::builder().tls_as(&authority, known).start().unwrap();
        let port = port(&server.url());
        let builder = Client::builder(&format!("rediss://many.example:{port}"));
        answers(builder.ca_certificate(authority.ca_pem()), port).await;
    }

    #[tokio::test]
    async fn a_sentinel_is_found_behind_silent_addresses() {
        let sentinels = Sentinels::start().await.unwrap();
        let port = port(&sentinels.sentinels()[0].url());
        answers(Client::builder(&format!("redis+sentinel://many.example:{port}/mymaster")), port).await;
    }

    #[tokio::test]
    async fn a_cluster_is_found_behind_silent_addresses() {
        let cluster = Cluster::start().await.unwrap();
        let port = port(&cluster.node(0).url());
        let (names, _silent) = names(port);
        let builder = Client::builder(&format!("redis+cluster://many.example:{port}"));
        let client = builder.names(names).response_timeout(SOON).build().unwrap();
        client.commands().command(redis::cmd("SET").arg("k").arg("v")).await.unwrap();
    }

    #[tokio::test]
    async fn of_many_dead_addresses_the_cause_is_told() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        // Nobody listens at the first, and the others are silent.
        let (_, silent) = names(free);
        let listening = silent.iter().map(|listener| listener.local_addr().unwrap().ip());
        let names = Names::Fixed([Ipv4Addr::LOCALHOST.into()].into_iter().chain(listening).collect());
        let builder = Client::builder(&format!("redis://many.example:{free}"));
        let client = builder.names(names).connect_timeout(Duration::from_millis(200)).build().unwrap();
        let error = client.commands().command(&redis::cmd("PING")).await.unwrap_err();
        assert_eq!(error.class(), Class::Unreachable, "{error:?}");
        assert!(format!("{error:?}").contains("refused"), "{error:?}");
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_named() {
        for names in [Names::System, Names::Fixed(Vec::new())] {
            // Two dots are in no name, so no server is asked for it.
            let builder = Client::builder("redis://no..example").names(names);
            let client = builder.response_timeout(Duration::from_millis(200)).build().unwrap();
            let error = client.commands().command(&redis::cmd("PING")).await.unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!((error.class(), error.may_have_executed()), (Class::Unreachable, false));
            assert!(source.contains("the name no..example cannot be resolved"), "{source}");
        }
    }
}
