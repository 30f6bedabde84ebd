//! One live connection, and the way to make it. Its owners `shared`, `blocking` and `subscriber` decide when to make
//! another.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::address::{Address, Credentials};
use crate::pulse::Pulse;
use crate::reach::{Names, reach};
use crate::role::{Protocol, Role, hello_as};
use crate::sentinel::Sentinels;
use crate::tls::Tls;
use crate::transport::Heard;
use crate::wire::Wire;
use crate::{Admission, Error, server};

/// The most commands that wait to be written; more wait in their callers.
const PIPELINE_DEPTH: usize = 1024;

/// The settings that all servers of a deployment share.
pub(crate) struct Settings {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) db: u32,
    pub(crate) tls: Option<Tls>,
    pub(crate) names: Names,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
}

/// The way to talk to servers.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) settings: Arc<Settings>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    /// The name of connections at the server.
    pub(crate) name: Option<Arc<str>>,
}

/// The way to find the server to connect to.
#[derive(Clone)]
pub(crate) enum Target {
    Server(Address),
    MasterOf(Arc<Sentinels>),
}

/// All that a connection to one server needs, shared by the roles of a client.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) target: Target,
    pub(crate) access: Access,
}

/// A command before the caller's first one, by the answer that it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Login,
    /// The answer must say that the server is a master.
    IsMaster,
    Select,
    /// Any answer will do; the caller reads it.
    Question,
}

impl Connector {
    /// Makes one connection, ready for commands. The connect timeout holds for every step alone: asking sentinels, resolving
    /// the name, and trying an address. Addresses are tried side by side.
    pub(crate) async fn connect(&self) -> Result<Link, Error> {
        reach(&self.address().await?, &self.access.settings, |wire| self.enter(wire)).await
    }

    /// Makes the wire a connection for commands.
    async fn enter(&self, mut wire: Wire) -> Result<Link, Error> {
        let mut steps = self.entrance(Protocol::Two);
        if self.access.settings.db != 0 {
            steps.push((Step::Select, redis::cmd("SELECT").arg(self.access.settings.db).take()));
        }
        if self.access.admission.is_some() {
            steps.push((Step::Question, server::who()));
        }
        let answer = ask(&mut wire, &steps).await?;
        let identity = self.access.admission.as_ref().map(|_| server::identity(&answer)).transpose()?;
        let pulse = Arc::new(Pulse::new());
        let stream = wire.into_stream()?;
        let stream = Heard { stream, pulse: pulse.clone() };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_DEPTH);
        // The server has been told everything, its protocol included: this sends nothing.
        let bare = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (multiplexed, driver) =
            MultiplexedConnection::new_with_config(&bare, stream, config).await.map_err(Error::connecting)?;
        Ok(Link { multiplexed, driver: tokio::spawn(driver), identity: Mutex::new(identity), pulse })
    }

    /// Makes one connection for a subscription, and logs in. Returns the server's role as well. The times are those of
    /// `connect`.
    pub(crate) async fn connect_wire(&self) -> Result<(Wire, Role), Error> {
        reach(&self.address().await?, &self.access.settings, |mut wire| async move {
            let answer = ask(&mut wire, &self.entrance(Protocol::Three)).await?;
            let role = Role::read(&answer).ok_or(Error::Reply { expected: "the role of the server" })?;
            Ok((wire, role))
        })
        .await
    }

    /// Checks whether commands may be sent on this link now. A server that is not admitted is asked for its identity
    /// again.
    pub(crate) async fn admit(&self, link: &Link, deadline: Instant, allowed: Duration) -> Result<(), Error> {
        let Some(admission) = &self.access.admission else { return Ok(()) };
        if link.identity().as_deref().is_some_and(|known| admission.admit(known)) {
            return Ok(());
        }
        let answer = link.send_by(&server::who(), deadline, allowed).await.map_err(Error::during_setup)?;
        let identity = server::identity(&answer)?;
        let admitted = admission.admit(&identity);
        *link.identity() = Some(identity.clone());
        if admitted { Ok(()) } else { Err(Error::OtherServer { run_id: identity }) }
    }

    async fn address(&self) -> Result<Address, Error> {
        match &self.target {
            Target::Server(address) => Ok(address.clone()),
            Target::MasterOf(sentinels) => sentinels.master(&self.access.settings).await,
        }
    }

    /// The first commands. A server that does not answer them is not there, whatever accepts connections for it.
    fn entrance(&self, protocol: Protocol) -> Vec<(Step, Cmd)> {
        let mut steps = self.access.settings.login();
        let step = match self.target {
            // Sentinels may still name a master that was demoted meanwhile.
            Target::MasterOf(_) => Step::IsMaster,
            Target::Server(_) => Step::Question,
        };
        steps.push((step, hello_as(protocol, self.access.name.as_deref())));
        steps
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server(one), Self::Server(other)) => one == other,
            (Self::MasterOf(one), Self::MasterOf(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Settings {
    /// The commands that log in to a Redis server; none without credentials.
    pub(crate) fn login(&self) -> Vec<(Step, Cmd)> {
        self.credentials.iter().map(|credentials| (Step::Login, credentials.auth())).collect()
    }
}

/// Sends all steps at once. Returns the last answer, or the first error among the answers.
pub(crate) async fn ask(wire: &mut Wire, steps: &[(Step, Cmd)]) -> Result<Value, Error> {
    for (_, command) in steps {
        wire.queue(command);
    }
    let mut answer = Value::Nil;
    for (step, _) in steps {
        let checked = Error::checked(wire.next().await?);
        answer = if *step == Step::Login { checked.map_err(Error::during_login)? } else { checked? };
        if *step == Step::IsMaster && Role::read(&answer) != Some(Role::Master) {
            return Err(Error::unreachable("the server that the sentinels name is not a master (any more)"));
        }
    }
    Ok(answer)
}

impl Credentials {
    /// The command that logs in with these credentials.
    pub(crate) fn auth(&self) -> Cmd {
        let mut auth = redis::cmd("AUTH");
        if let Some(user) = &self.user {
            auth.arg(&**user);
        }
        auth.arg(&*self.password).take()
    }
}

/// One live connection. It ends with its last owner, even with calls in flight.
pub(crate) struct Link {
    multiplexed: MultiplexedConnection,
    driver: JoinHandle<()>,
    /// The server's identity as of its last answer; `None` where no admission asks.
    identity: Mutex<Option<Box<str>>>,
    pulse: Arc<Pulse>,
}

impl Link {
    fn identity(&self) -> MutexGuard<'_, Option<Box<str>>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the other end has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Whether the server has owed an answer for this long and said nothing.
    pub(crate) fn is_silent_for(&self, long: Duration) -> bool {
        self.pulse.silent_for(long)
    }

    /// Sends a command and waits for its reply until `deadline`; `allowed` is the whole time that the caller was given.
    pub(crate) async fn send_by(
        &self,
        command: &Cmd,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<Value, Error> {
        self.pulse.sent();
        let mut multiplexed = self.multiplexed.clone();
        match timeout_at(deadline, multiplexed.send_packed_command(command)).await {
            Ok(Ok(value)) => Error::checked(value),
            Ok(Err(error)) => Err(Error::in_flight(error)),
            Err(_) => Err(Error::TimedOut(allowed)),
        }
    }

    /// Sends commands in one write and waits for all their replies until `deadline`. An error of the whole counts for
    /// each of them.
    pub(crate) async fn send_all_by(
        &self,
        commands: &Pipeline,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<Vec<Value>, Error> {
        self.pulse.sent();
        let mut multiplexed = self.multiplexed.clone();
        match timeout_at(deadline, multiplexed.send_packed_commands(commands, 0, commands.len())).await {
            Ok(Ok(values)) if values.len() == commands.len() => Ok(values),
            Ok(Ok(_)) => Err(Error::Lost(RedisError::from(io::Error::from(io::ErrorKind::InvalidData)))),
            Ok(Err(error)) => Err(Error::in_flight(error)),
            Err(_) => Err(Error::TimedOut(allowed)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
