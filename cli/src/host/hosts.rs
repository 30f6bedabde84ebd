//! The hosts of a node: each is had anew, says hello, and is then talked to until nothing of it is left.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_pool::Node;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::child::Launcher;
use super::figures::Figures;
use super::leases::Leases;
use super::link::Link;
use super::peer::{self, Door};
use super::talk::Talk;
use super::tether::Tether;
use super::wire::codec::Lines;
use super::wire::down::Down;
use super::wire::up::{Hello, Up};
use super::wire::{FEATURES, VERSION};

/// How many versions of a host are told that speaks none of ours.
const VERSIONS: usize = 16;
/// How much of a host's own words a line of the log has.
const SHOWN: usize = 64;

/// The hosts of a node.
pub(super) struct Hosts {
    pub(super) source: Source,
    pub(super) pool: String,
    pub(super) node: Node,
    pub(super) ttl: Duration,
    pub(super) hello_timeout: Duration,
    /// How long a host may leave a ping unanswered.
    pub(super) deadline: Duration,
}

/// Where hosts come from.
pub(super) enum Source {
    /// The node starts them.
    Children(Box<Launcher>),
    /// Somebody else does, and they connect to this door.
    Peers(Door),
}

/// Why there is no host.
#[derive(Debug)]
pub(super) enum NoHost {
    /// Another attempt would come out the same.
    Unfit(String),
    /// The program could not be started at all.
    NotRun(String),
    /// It did not get as far as its hello.
    Failed(String),
}

impl From<io::Error> for NoHost {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A hello, and the connection that it came by.
pub(super) type Greeted = (Hello, Lines<OwnedReadHalf>, OwnedWriteHalf);

impl Hosts {
    /// Gets a host for this worker, and welcomes it.
    ///
    /// # Errors
    /// There is none, and nothing of it is left.
    ///
    /// # Cancel safety
    /// Safe: a drop ends what there is.
    pub(super) async fn start(&self, worker: u16, figures: &Figures) -> Result<Arc<Link>, NoHost> {
        let launcher = match &self.source {
            Source::Children(launcher) => launcher,
            Source::Peers(door) => {
                tracing::info!(worker, "a worker waits for a host");
                let (hello, lines, to) = door.next().await;
                let (uid, pid) = peer::who(to.as_ref());
                let (sdk, name) = (shown(&hello.sdk), shown(&hello.name));
                tracing::info!(worker, uid, pid, sdk, name, "a host has attached");
                let (talk, from) = self.welcome((worker, figures), hello, Tether::Told);
                let link = talk.link.clone();
                tokio::spawn(peer::live(talk, lines, to, from));
                return Ok(link);
            }
        };
        let (child, (hello, lines, to)) = launcher.greeted(worker, self.hello_timeout).await?;
        if let Some((why, refused)) = refusal(&hello) {
            child.refuse(to, &refused).await;
            return Err(NoHost::Unfit(why));
        }
        let keeper = child.keeper()?;
        let (talk, from) = self.welcome((worker, figures), hello, Tether::Kept(keeper));
        let link = talk.link.clone();
        tokio::spawn(child.live(talk, lines, to, from));
        Ok(link)
    }

    /// Whether somebody else runs them.
    pub(super) fn are_peers(&self) -> bool {
        matches!(self.source, Source::Peers(_))
    }

    fn door(&self) -> Option<&Door> {
        match &self.source {
            Source::Children(_) => None,
            Source::Peers(door) => Some(door),
        }
    }

    /// The node leaves: no further host may attach.
    pub(super) fn close(&self) {
        self.door().inspect(|door| door.close());
    }

    /// A worker takes no host for a while, for its last ones went soon; or it takes one again.
    pub(super) fn pauses(&self, pauses: bool) {
        self.door().inspect(|door| door.pauses(pauses));
    }

    /// Another node has drained a worker: it takes no host any more.
    pub(super) fn drained(&self) {
        self.door().inspect(|door| door.drained());
    }

    /// Waits until no further host can connect, and returns why.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn lost(&self) -> String {
        match self.door() {
            Some(door) => door.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Welcomes a host. Returns the talk with it, and the lines for it.
    fn welcome(
        &self,
        (worker, figures): (u16, &Figures),
        hello: Hello,
        tether: Tether,
    ) -> (Talk, mpsc::UnboundedReceiver<Vec<u8>>) {
        let checkpoint_max = self.node.settings().checkpoint_max;
        let welcome = Down::Hello {
            v: VERSION,
            pool: self.pool.clone(),
            node: self.node.name().to_owned(),
            worker,
            ttl_ms: u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX),
            checkpoint_max,
            features: FEATURES.map(str::to_owned).into(),
            tenure: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let tether = Arc::new(tether);
        let leases = Leases::new(tether.clone(), self.ttl);
        let (out, from) = mpsc::unbounded_channel();
        let link = Arc::new(Link::new(hello, tether, leases, out));
        link.send(&welcome);
        let (node, ttl, deadline) = (self.node.clone(), self.ttl, self.deadline);
        let figures = figures.clone();
        let talk = Talk { link, node, ttl, deadline, checkpoint_max, figures };
        (talk, from)
    }
}

/// Waits for the first word of a host.
///
/// # Errors
/// It is no hello, or takes no job.
///
/// # Cancel safety
/// A drop closes the connection.
pub(super) async fn greeting(stream: UnixStream) -> Result<Greeted, String> {
    let (from, to) = stream.into_split();
    let mut lines = Lines::new(from);
    match lines.next().await {
        Ok(Some(Up::Hello(hello))) if hello.max_jobs == Some(0) => {
            Err("its hello takes no job: max_jobs is 0".to_owned())
        }
        Ok(Some(Up::Hello(hello))) => Ok((hello, lines, to)),
        Ok(Some(_)) => Err("its first message is not hello".to_owned()),
        Ok(None) => Err("it closed its connection without a hello".to_owned()),
        Err(bad) => Err(format!("it does not speak the protocol: {bad}")),
    }
}

/// The beginning of what a host says of itself.
fn shown(text: &str) -> String {
    crate::out::shown::plain(&text.chars().take(SHOWN).collect::<String>())
}

/// Why a host is not welcome, and the answer to it. None: it speaks the version of this node.
pub(super) fn refusal(hello: &Hello) -> Option<(String, Down)> {
    if hello.v.contains(&VERSION) {
        return None;
    }
    let theirs: Vec<_> = hello.v.iter().copied().take(VERSIONS).collect();
    let ours = format!("this node speaks version {VERSION} of the host protocol");
    let why = match &theirs[..] {
        [] => format!("{ours}, the host names none"),
        theirs => format!("{ours}, the host {theirs:?}"),
    };
    Some((why.clone(), Down::Refused { why, ours: vec![VERSION], theirs }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_host_that_takes_no_job_is_not_welcome() {
        for (jobs, greeted) in
            [(1, Ok(Some(1))), (0, Err("its hello takes no job: max_jobs is 0".to_owned()))]
        {
            let (own, mut host) = UnixStream::pair().unwrap();
            let hello = format!("{{\"op\":\"hello\",\"v\":[1],\"max_jobs\":{jobs}}}\n");
            host.write_all(hello.as_bytes()).await.unwrap();
            assert_eq!(greeting(own).await.map(|(hello, ..)| hello.max_jobs), greeted);
        }
    }
}
