//! The URL of a deployment of Redis and of the login to it. Pure: nothing is resolved or opened here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

const PORT_RANGE: &str =
    "the port in the url is not a number from 1 to 65535 (in a password, / is %2F and @ is %40)";
const DB_RANGE: &str = "the database in the url, after the host's /, is not a number";

/// The address of one server.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Address {
    /// A host name or address, without brackets, and a port.
    Tcp(Arc<str>, u16),
    /// The path of a unix socket.
    Unix(Arc<Path>),
}

/// The servers, and the way to find the one to talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One server.
    Single(Address),
    /// The master that the sentinels name.
    Sentinel { sentinels: Vec<Address>, service: Box<str> },
    /// A cluster, found through some of its nodes.
    Cluster { seeds: Vec<Address> },
}

/// A user's name, unless it is the default user, and the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<Box<str>>,
    pub(crate) password: Box<str>,
}

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) deployment: Deployment,
    pub(crate) tls: bool,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) sentinel_credentials: Option<Credentials>,
    pub(crate) db: u32,
    /// Files with certificates and a key in PEM.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Url {
    /// Blanks and line ends around the URL are left out: files and secrets often end with a newline.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(unusable)?;
        if rest.contains('#') {
            return Err(config(
                "the url has a fragment (#…), which means nothing here (in a password, # is %23)",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::parse(query)?;
        let (tls, form) = match scheme.strip_prefix("rediss") {
            Some(form) => (true, form),
            None => (false, scheme.strip_prefix("redis").unwrap_or(scheme)),
        };
        let parsed = match (form, tls) {
            ("", _) => Self::single(rest, tls, query),
            ("+sentinel", _) => Self::sentinel(rest, tls, query),
            ("+cluster", _) => Self::cluster(rest, tls, query),
            ("+unix" | "unix", false) => Self::unix(rest, query),
            _ => Err(unusable()),
        }?;
        if !parsed.tls && (parsed.ca.is_some() || parsed.certificate.is_some() || parsed.key.is_some()) {
            return Err(config("certificates (ca, cert, key) need a url with tls (rediss://, rediss+…://)"));
        }
        Ok(parsed)
    }

    fn single(rest: &str, tls: bool, query: Query) -> Result<Self, Error> {
        let (credentials, mut hosts, path) = authority(rest, PORT)?;
        let (Some(address), true) = (hosts.pop(), hosts.is_empty()) else {
            return Err(config(
                "only one host is allowed: several need redis+sentinel:// or redis+cluster://",
            ));
        };
        let db = database(path)?;
        query.into_url(Deployment::Single(address), tls, credentials, db)
    }

    fn sentinel(rest: &str, tls: bool, query: Query) -> Result<Self, Error> {
        let (credentials, sentinels, path) = authority(rest, SENTINEL_PORT)?;
        let (service, db) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return Err(config(
                "a sentinel url names the service: redis+sentinel://host:port,…/service[/db]",
            ));
        }
        let service = decoded(service)?.into();
        let db = database(db)?;
        query.into_url(Deployment::Sentinel { sentinels, service }, tls, credentials, db)
    }

    fn cluster(rest: &str, tls: bool, query: Query) -> Result<Self, Error> {
        let (credentials, seeds, path) = authority(rest, PORT)?;
        if database(path)? != 0 {
            return Err(config("a cluster has only the database 0"));
        }
        query.into_url(Deployment::Cluster { seeds }, tls, credentials, 0)
    }

    fn unix(path: &str, mut query: Query) -> Result<Self, Error> {
        let path = decoded(path)?;
        if !path.starts_with('/') {
            return Err(config("a unix socket is named by its whole path: redis+unix:///path"));
        }
        let db = query.db.take().map_or(Ok(0), |db| number(&db, DB_RANGE))?;
        let credentials = credentials(query.user.take(), query.pass.take());
        let address = Address::Unix(Path::new(&path).into());
        query.into_url(Deployment::Single(address), false, credentials, db)
    }
}

/// The parameters after the `?`, decoded.
#[derive(Default)]
struct Query {
    db: Option<String>,
    user: Option<String>,
    pass: Option<String>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Query {
    fn parse(text: &str) -> Result<Self, Error> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "db" => &mut query.db,
                "user" => &mut query.user,
                "pass" => &mut query.pass,
                "sentinel_user" => &mut query.sentinel_user,
                "sentinel_password" => &mut query.sentinel_password,
                "ca" => &mut query.ca,
                "cert" => &mut query.cert,
                "key" => &mut query.key,
                // For the redis crate; each role here uses the protocol that it needs.
                "protocol" => continue,
                _ => {
                    return Err(config(
                        "the url has a parameter that is unknown; known are ca, cert, key, sentinel_user, sentinel_password (in a password, ? is %3F)",
                    ));
                }
            };
            *place = Some(decoded(value)?);
        }
        Ok(query)
    }

    fn into_url(
        self,
        deployment: Deployment,
        tls: bool,
        credentials_in_authority: Option<Credentials>,
        db: u32,
    ) -> Result<Url, Error> {
        if self.db.is_some() || self.user.is_some() || self.pass.is_some() {
            return Err(config("db, user and pass are parameters of redis+unix:// only"));
        }
        let sentinel_credentials = credentials(self.sentinel_user, self.sentinel_password);
        if sentinel_credentials.is_some() && !matches!(deployment, Deployment::Sentinel { .. }) {
            return Err(config("credentials for sentinels need a redis+sentinel:// url"));
        }
        let path = |text: Option<String>| text.map(PathBuf::from);
        Ok(Url {
            deployment,
            tls,
            credentials: credentials_in_authority,
            sentinel_credentials,
            db,
            ca: path(self.ca),
            certificate: path(self.cert),
            key: path(self.key),
        })
    }
}

/// Splits `[user:password@]host[:port][,host[:port]…][/path]`.
fn authority(rest: &str, port: u16) -> Result<(Option<Credentials>, Vec<Address>, &str), Error> {
    // A password may hold anything but a bare '/' or '@', which are written %2F and %40; a host holds neither.
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let login = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        Some((user, password)) => credentials(Some(decoded(user)?), Some(decoded(password)?)),
        None => None,
    };
    let hosts = hosts.split(',').map(|host| address(host, port)).collect::<Result<_, _>>()?;
    Ok((login, hosts, path))
}

/// A user without a password logs in with an empty password. Redis accepts any password of a `nopass` user.
fn credentials(user: Option<String>, password: Option<String>) -> Option<Credentials> {
    let user = user.filter(|user| !user.is_empty()).map(String::into_boxed_str);
    let password = password.unwrap_or_default();
    if user.is_none() && password.is_empty() {
        return None;
    }
    Some(Credentials { user, password: password.into() })
}

/// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
pub(crate) fn address(text: &str, default_port: u16) -> Result<Address, Error> {
    let (host, port) =
        match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => {
                let port = rest.strip_prefix(':');
                (
                    host,
                    Some(port.ok_or_else(|| {
                        config("in the url, only ':' and a port may follow the ']' of a host")
                    })?),
                )
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
    let port = port.map_or(Ok(default_port), |port| number(port, PORT_RANGE))?;
    let in_a_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() {
        return Err(config("the url has no host, or an empty one among several"));
    }
    if port == 0 {
        return Err(config(PORT_RANGE));
    }
    if !host.chars().all(in_a_name) {
        return Err(config(
            "the host in the url has a character that no host has (in a password, / is %2F and @ is %40)",
        ));
    }
    Ok(Address::Tcp(host.into(), port))
}

fn database(path: &str) -> Result<u32, Error> {
    match path.trim_end_matches('/') {
        "" => Ok(0),
        db => number(db, DB_RANGE),
    }
}

fn number<N: std::str::FromStr>(text: &str, range: &'static str) -> Result<N, Error> {
    text.parse().map_err(|_| config(range))
}

fn decoded(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(config("the url has a % that is not followed by two hexadecimal digits"));
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| config("the url is not text in utf-8 when it is decoded"))
}

fn unusable() -> Error {
    config("not a usable redis url (redis://, rediss://, redis+unix://, redis+sentinel://, redis+cluster://)")
}

fn config(what: &'static str) -> Error {
    Error::Config { what, source: None }
}

impl Address {
    /// The same host with another port, for an answer without a host.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        match self {
            Self::Tcp(host, _) => Self::Tcp(host.clone(), port),
            Self::Unix(_) => self.clone(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    fn login(user: Option<&str>, password: &str) -> Credentials {
        Credentials { user: user.map(Into::into), password: password.into() }
    }

    #[test]
    fn a_url_of_one_server_may_have_every_part() {
        let url = Url::parse("redis://localhost").unwrap();
        assert_eq!(url.deployment, Deployment::Single(tcp("localhost", 6379)));
        assert_eq!((url.tls, url.credentials, url.db), (false, None, 0));
        let url =
            Url::parse("rediss://me:p%40%2fss:word@[::1]:7000/3?ca=/etc/my%20ca.pem&protocol=resp3").unwrap();
        assert_eq!(url.deployment, Deployment::Single(tcp("::1", 7000)));
        assert_eq!((url.tls, url.db), (true, 3));
        assert_eq!(url.credentials, Some(login(Some("me"), "p@/ss:word")));
        assert_eq!(url.ca, Some(PathBuf::from("/etc/my ca.pem")));
        assert_eq!(Url::parse("redis://:secret@h/").unwrap().credentials, Some(login(None, "secret")));
        let shown = format!("{:?}", Url::parse("redis://me:secret@h").unwrap());
        assert!(shown.contains("h:6379") && shown.contains("me") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn sockets_sentinels_and_clusters() {
        let url = Url::parse("redis+unix:///tmp/a%20b.sock?db=2&user=me&pass=x").unwrap();
        assert_eq!(url.deployment, Deployment::Single(Address::Unix(Path::new("/tmp/a b.sock").into())));
        assert_eq!((url.credentials, url.db), (Some(login(Some("me"), "x")), 2));

        let url = "rediss+sentinel://me:x@a,b:1,[::2]:3/main/4?sentinel_user=watch&sentinel_password=y";
        let url = Url::parse(url).unwrap();
        let sentinels = vec![tcp("a", 26379), tcp("b", 1), tcp("::2", 3)];
        assert_eq!(url.deployment, Deployment::Sentinel { sentinels, service: "main".into() });
        assert_eq!((url.tls, url.db), (true, 4));
        assert_eq!(url.credentials, Some(login(Some("me"), "x")));
        assert_eq!(url.sentinel_credentials, Some(login(Some("watch"), "y")));

        let url = Url::parse("redis+cluster://a,b:1").unwrap();
        assert_eq!(url.deployment, Deployment::Cluster { seeds: vec![tcp("a", 6379), tcp("b", 1)] });
    }

    #[test]
    fn a_meaningless_url_is_refused() {
        for url in [
            "",
            "localhost",
            "http://localhost",
            "redis://",
            "redis://:7000",
            "redis://host:0",
            "redis://host:70000",
            "redis://host:x",
            "redis://[::1",
            "redis://a,b",
            "redis://ho st",
            "redis://host/notanumber",
            "redis://host/-1",
            "redis://host?db=1",
            "redis://host?typo=1",
            "redis://host?ca=/etc/ca.pem",
            "redis://host#insecure",
            "redis://:%zz@host",
            "redis://:%ff@host",
            "rediss+unix:///tmp/a",
            "redis+unix://relative",
            "redis+sentinel://a,b",
            "redis+sentinel:///service",
            "redis+cluster://a/1",
            "redis+cluster://a,,b",
            "redis+cluster://a?sentinel_password=x",
            "redis+other://a",
        ] {
            let error = Url::parse(url).unwrap_err();
            assert!(matches!(error, Error::Config { source: None, .. }), "{url}: {error}");
        }
    }

    #[test]
    fn an_error_says_which_part_and_nothing_of_a_password() {
        for (url, part) in [
            ("redis://host:70000", "the port"),
            ("redis://host:0", "the port"),
            ("redis://host/notanumber", "the database"),
            ("redis+unix:///tmp/a?db=x", "the database"),
            ("redis://:7000", "no host"),
            ("redis+cluster://a,,b", "no host"),
            ("redis://ho st", "the host"),
            ("redis://[::1]x", "']'"),
            ("redis://host?typo=1", "a parameter"),
            // A password that was not encoded.
            ("redis://:secret#2@host", "# is %23"),
            ("redis://:secret?2@host", "? is %3F"),
            // A password with a bare '/': no part of it is a host.
            ("redis://:pa/secret@host", "the port"),
            ("redis://me:secret/@host", "the port"),
        ] {
            let shown = Url::parse(url).unwrap_err().to_string();
            assert!(shown.contains(part) && !shown.contains("secret"), "{url}: {shown}");
        }
    }

    #[test]
    fn blanks_and_line_ends_around_a_url_are_no_part_of_it() {
        for url in ["redis://h:1/2\n", "  redis://h:1/2", "\tredis://h:1/2\r\n"] {
            let url = Url::parse(url).unwrap();
            assert_eq!((url.deployment, url.db), (Deployment::Single(tcp("h", 1)), 2));
        }
        for inside in ["redis://h:1 /2", "redis://h\n:1", "redis ://h"] {
            assert!(Url::parse(inside).is_err(), "{inside:?}");
        }
    }

    #[test]
    fn a_user_without_a_password_has_an_empty_one() {
        for url in ["redis://app@h", "redis://app:@h", "redis+unix:///s?user=app"] {
            assert_eq!(Url::parse(url).unwrap().credentials, Some(login(Some("app"), "")), "{url}");
        }
        for url in ["redis://@h", "redis://:@h", "redis://h"] {
            assert_eq!(Url::parse(url).unwrap().credentials, None, "{url}");
        }
    }

    #[test]
    fn no_text_is_a_panic() {
        for url in [
            "rediss://me:p%40%2fss:word@[::1]:7000/3?ca=/etc/my%20ca.pem&protocol=resp3",
            "redis+unix:///tmp/a%20b.sock?db=2&user=me&pass=x",
            "rediss+sentinel://me:x@a,b:1,[::2]:3/main/4?sentinel_user=watch&sentinel_password=y",
        ] {
            for at in 0..url.len() {
                let (start, end) = url.split_at(at);
                let _ = (Url::parse(start), Url::parse(end));
                for other in ["", "@", ":", "/", ",", "?", "#", "%", "[", "]", "&", "=", "é", "\0"] {
                    let _ = Url::parse(&format!("{start}{other}{}", &end[1..]));
                }
            }
        }
    }

    #[test]
    fn an_address_is_shown_as_it_is_written() {
        for text in ["host:1", "[::1]:7000", "10.0.0.1:6379"] {
            assert_eq!(address(text, 6379).unwrap().to_string(), text);
        }
        assert_eq!(address("::1", 6379).ok(), None, "an ipv6 address has brackets");
    }
}
