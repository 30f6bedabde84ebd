//! The process of a host: it is started, says hello, and is talked to until nothing of it is left.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, UCred};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::hosts::{Greeted, NoHost, greeting};
use super::link::Gone;
use super::options::Host;
use super::talk::{Over, Talk};
use super::tether::Keeper;
use super::wire::codec::{Lines, line};
use super::wire::down::Down;
use crate::work::book::Line;
use crate::work::folder::Folder;
use crate::work::launch::{Confines, End, Word};
use crate::work::logs::Source;
use crate::work::plan;
use crate::work::process::{Processes, Program, told};
use crate::work::starter::{Started, Starter};
use crate::work::tree;

/// The variable that names the socket, and the socket in the host's folder.
const SOCKET_VAR: &str = "TENURE_SOCKET";
const SOCKET: &str = "host";
/// The exit status of a host that nobody should start again.
const UNFIT: i32 = 78;
/// How long the last words of a host may take: of its jobs, and its exit status.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a host that was refused may take to end.
const REFUSED: Duration = Duration::from_secs(20);

/// All that the processes of hosts are started with.
pub(super) struct Launcher {
    command: Vec<OsString>,
    pool: String,
    /// The node's name.
    node: String,
    starter: Starter,
    unset: Vec<OsString>,
    confines: Confines,
}

/// A process that may become a host.
pub(super) struct Child {
    pub(super) program: Started,
    line: Arc<Line>,
    /// It has the socket.
    folder: Folder,
}

impl Launcher {
    /// A launcher of the hosts of this node.
    pub(super) fn new(host: &Host, pool: &str, node: &str, starter: Starter, confines: Confines) -> Self {
        Self {
            command: host.command.clone(),
            pool: pool.to_owned(),
            node: node.to_owned(),
            starter,
            unset: plan::unset(&host.pass_env),
            confines,
        }
    }

    /// Starts a process for this worker, and waits for its hello.
    ///
    /// # Errors
    /// There is none, and nothing of the process is left.
    ///
    /// # Cancel safety
    /// Safe: a drop kills what there is.
    pub(super) async fn greeted(&self, worker: u16, within: Duration) -> Result<(Child, Greeted), NoHost> {
        let folder = self.starter.folder("host-")?;
        let listener = UnixListener::bind(folder.path(SOCKET))?;
        let mut child = self.launch(worker, folder)?;
        let keeper = child.program.processes.keeper();
        let hello = tokio::select! {
            biased;
            end = first_end(&mut child.program.processes) => Err(end),
            hello = timeout(within, welcome(listener, keeper)) => Ok(hello),
        };
        match hello {
            Ok(Ok(Ok(greeted))) => Ok((child, greeted)),
            Ok(Ok(Err(why))) => Err(NoHost::Failed(child.failed(&why).await)),
            Ok(Err(_)) => {
                let within = humantime::format_duration(within);
                Err(NoHost::Failed(child.failed(&format!("it did not say hello within {within}")).await))
            }
            Err(end) => Err(child.ended_early(end).await),
        }
    }

    fn launch(&self, worker: u16, folder: Folder) -> io::Result<Child> {
        let set: BTreeMap<_, OsString> = [
            (SOCKET_VAR, folder.path(SOCKET).into()),
            ("TENURE_POOL", self.pool.clone().into()),
            ("TENURE_NODE", self.node.clone().into()),
            ("TENURE_WORKER", worker.to_string().into()),
        ]
        .into();
        let (unset, confines) = (self.unset.clone(), self.confines.clone());
        let name = format!("host {worker}");
        let (line, input) = (self.command.clone(), Vec::new());
        let program = Program { name, line, set, unset, input, confines };
        let line = Arc::new(self.starter.book.open()?);
        let key = format!("worker-{worker}");
        let name = key.clone().into_bytes();
        let source = Source { key, name, token: 0, waiting: AtomicUsize::new(0) };
        let program = self.starter.start(program, line.clone(), source, false)?;
        Ok(Child { program, line, folder })
    }
}

/// Waits for the host, and for its first word.
async fn welcome(listener: UnixListener, keeper: Pid) -> Result<Greeted, String> {
    let stream = loop {
        let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        match stream.peer_cred() {
            Ok(peer) if is_ours(peer, keeper) => break stream,
            Ok(peer) => tracing::warn!(?peer, "a stranger connects to a host's socket, it is refused"),
            Err(error) => {
                tracing::warn!(%error, "nobody knows who connects to a host's socket, it is refused");
            }
        }
    };
    // Nobody else can connect.
    drop(listener);
    greeting(stream).await
}

/// Whether the peer is of this user, and came from the keeper's program.
fn is_ours(peer: UCred, keeper: Pid) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let pid = peer.pid().and_then(Pid::from_raw);
    peer.uid() == user && pid.is_some_and(|pid| tree::is_below(pid, keeper))
}

/// The end of the program, or the reason why it did not run.
pub(super) async fn first_end(processes: &mut Processes) -> Result<End, String> {
    loop {
        match processes.next().await {
            Word::Started(_) | Word::TooMuchMemory(_) => {}
            Word::NotStarted(why) => return Err(why),
            Word::Ended(end) => return Ok(end),
            // Its keeper was killed.
            Word::Gone => return Ok(End::Signal(9)),
        }
    }
}

impl Child {
    /// Its keeper, which holds it to the leases of its jobs.
    ///
    /// # Errors
    /// The machine has no more files, or it has gone.
    pub(super) fn keeper(&self) -> io::Result<Keeper> {
        Keeper::of(&self.program.processes, self.line.clone())
    }

    /// Refuses it by this message, and lets it end, or kills it.
    pub(super) async fn refuse(mut self, mut to: OwnedWriteHalf, refused: &Down) {
        let line = line(refused).unwrap_or_default();
        // It ends whether it reads this or not.
        let _ = timeout(REFUSED, to.write_all(&line)).await;
        let _ = timeout(REFUSED, first_end(&mut self.program.processes)).await;
        self.program.processes.kill().await;
    }

    /// Kills it, and says why with the last of its words.
    async fn failed(mut self, why: &str) -> String {
        self.program.kill().await;
        told(why.to_owned(), &self.program.last.text())
    }

    async fn ended_early(mut self, end: Result<End, String>) -> NoHost {
        self.program.finish().await;
        match end {
            Err(why) => NoHost::NotRun(why),
            Ok(end @ End::Exit(UNFIT)) => NoHost::Unfit(self.program.told(end)),
            Ok(end) => NoHost::Failed(format!("it ended before its hello: {}", self.program.told(end))),
        }
    }

    /// Talks to it, until nothing of it is left.
    pub(super) async fn live(
        mut self,
        talk: Talk,
        lines: Lines<OwnedReadHalf>,
        to: OwnedWriteHalf,
        from: mpsc::UnboundedReceiver<Vec<u8>>,
    ) {
        let link = talk.link.clone();
        let (mut end, mut why) = (None, None);
        {
            let mut talking = std::pin::pin!(talk.run(lines, to, from));
            tokio::select! {
                ended = first_end(&mut self.program.processes) => {
                    end = Some(ended);
                    // The last words on its jobs may wait in its socket.
                    let _ = timeout(LAST_WORDS, &mut talking).await;
                }
                over = &mut talking => why = Some(over),
            }
        }
        // One that has closed its connection ends in a moment, and its exit status says more.
        if matches!(why, Some(Over::Closed)) {
            end = timeout(LAST_WORDS, first_end(&mut self.program.processes)).await.ok();
        }
        self.program.kill().await;
        let gone = match (end, why) {
            (Some(Ok(end)), _) => {
                let word = if matches!(end, End::Exit(_)) { "exited" } else { "signal" };
                Gone { word, why: self.program.told(end) }
            }
            (Some(Err(why)), _) => Gone { word: "closed", why },
            (None, Some(over)) => over.into(),
            (None, None) => Gone::default(),
        };
        drop(self.folder);
        link.is_over(&gone);
    }
}
