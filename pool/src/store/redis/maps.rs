//! The two replicated maps of a pool, members and settings, read into their types.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tenure_connection::{Backoff, Client};
use tenure_rmap::{Layout, Snapshot, View};
use tenure_steps::Failure;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::keys::Keys;
use super::reply::failed;
use crate::model::id::{Incarnation, NodeName, Revision};
use crate::model::member::{CORDON, Member, Members, SLOTS};
use crate::model::settings::StoredSettings;
use crate::store::StoreError;

/// The lines of the following that a proof leaves out.
#[cfg(feature = "proof")]
pub(super) type Broken = tenure_rmap::Mutations;
/// Without the feature `sim` no line is left out.
#[cfg(not(feature = "proof"))]
#[derive(Clone, Debug, Default)]
pub(super) struct Broken {}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The maps, kept up to date by a task. The task begins when a server was blessed, and ends with this value or at
/// [`Maps::close`].
#[derive(Debug)]
pub(super) struct Maps {
    members: watch::Receiver<Arc<Members>>,
    settings: watch::Receiver<Arc<StoredSettings>>,
    views: Arc<OnceLock<[View; 2]>>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Follower {
    client: Client,
    #[cfg_attr(not(feature = "proof"), allow(dead_code))]
    broken: Broken,
    layouts: [Layout; 2],
    views: Arc<OnceLock<[View; 2]>>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    members: watch::Sender<Arc<Members>>,
    settings: watch::Sender<Arc<StoredSettings>>,
}

impl Maps {
    /// Follows the maps over new connections of `client`, which admit only the blessed server.
    pub(super) fn follow(
        client: Client,
        keys: &Keys,
        blessed: watch::Receiver<Option<Box<str>>>,
        broken: Broken,
    ) -> Self {
        let (members, members_seen) = watch::channel(Arc::default());
        let (settings, settings_seen) = watch::channel(Arc::default());
        let views = Arc::new(OnceLock::new());
        let layouts =
            [layout(keys, "workers", "workers_revision"), layout(keys, "settings", "settings_revision")];
        let trouble: Arc<Mutex<_>> = Arc::default();
        let follower = Follower {
            client,
            broken,
            layouts,
            views: views.clone(),
            trouble: trouble.clone(),
            members,
            settings,
        };
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(stop.clone().run_until_cancelled_owned(follower.run(blessed)));
        tasks.close();
        Self {
            members: members_seen,
            settings: settings_seen,
            views,
            trouble,
            tasks,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    pub(super) fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.members.clone()
    }

    pub(super) fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.settings.clone()
    }

    /// Why the maps could not be read so far, if they could not.
    pub(super) fn trouble(&self) -> Option<StoreError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a hint about the revisions of the maps. It is not needed before the first read.
    pub(super) fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        if let Some([members_view, settings_view]) = self.views.get() {
            members_view.expect(Some(inc.0), members.0);
            settings_view.expect(Some(inc.0), settings.0);
        }
    }

    /// Reads the settings again, and the members if `members` is true.
    pub(super) fn reread(&self, members: bool) {
        if let Some([members_view, settings_view]) = self.views.get() {
            settings_view.reread();
            if members {
                members_view.reread();
            }
        }
    }

    /// Ends the task and the subscription; the last state stays readable.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
        if let Some([members_view, _]) = self.views.get() {
            // Both views share one task.
            members_view.close().await;
        }
    }
}

impl Follower {
    async fn run(self, mut blessed: watch::Receiver<Option<Box<str>>>) {
        if blessed.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let [members_view, settings_view] = self.join().await;
        let (mut members, mut settings) = (members_view.watch(), settings_view.watch());
        // Only this place sets it.
        let _ = self.views.set([members_view, settings_view]);
        loop {
            self.members.send_replace(Arc::new(read_members(&members.snapshot())));
            self.settings.send_replace(Arc::new(read_settings(&settings.snapshot())));
            let ended = tokio::select! {
                ended = members.changed() => ended,
                ended = settings.changed() => ended,
            };
            if ended.is_err() {
                return;
            }
        }
    }

    fn trouble(&self, error: Option<&tenure_rmap::Error>) {
        let trouble = error.map(|error| match error {
            tenure_rmap::Error::Redis(error) => failed(error.clone()),
            other => StoreError::NotExecuted(Failure::new(other.clone())),
        });
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    async fn join(&self) -> [View; 2] {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        // The last kind of trouble that was logged: whether it may pass by itself.
        let mut said = None;
        loop {
            #[cfg(feature = "proof")]
            let joined = View::join_broken(&self.client, self.layouts.clone(), self.broken.clone()).await;
            #[cfg(not(feature = "proof"))]
            let joined = View::join(&self.client, self.layouts.clone()).await;
            match joined {
                Ok(views) => {
                    self.trouble(None);
                    return views;
                }
                Err(error) => {
                    self.trouble(Some(&error));
                    let may_pass = matches!(&error, tenure_rmap::Error::Redis(error) if error.is_transient());
                    let error = &error as &dyn std::error::Error;
                    if said.replace(may_pass) == Some(may_pass) {
                        tracing::debug!(error, "cannot read the members and the settings, trying again");
                    } else {
                        tracing::warn!(error, "cannot read the members and the settings, trying again");
                    }
                }
            }
            backoff.fail();
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

fn layout(keys: &Keys, map: &str, revision: &str) -> Layout {
    Layout {
        name: map.to_owned(),
        hash: keys.named(map),
        meta: keys.named("pool"),
        inc_field: "incarnation".to_owned(),
        rev_field: revision.to_owned(),
        deadlines: None,
        channel: keys.named("changes"),
    }
}

fn read_members(snapshot: &Snapshot) -> Members {
    let parsed = snapshot.iter().filter_map(|(worker, entry)| {
        let worker = std::str::from_utf8(worker).ok()?.parse().ok()?;
        Some((worker, Member::parse(entry)?))
    });
    let cordoned = snapshot
        .iter()
        .filter_map(|(field, _)| NodeName::new(std::str::from_utf8(field).ok()?.strip_prefix(CORDON)?).ok());
    let size = snapshot.get("size");
    let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
    Members {
        incarnation: snapshot.incarnation().map(Incarnation),
        revision: Revision(snapshot.revision()),
        ring_size: size.filter(|size| *size <= SLOTS).unwrap_or(0),
        cordoned: cordoned.collect(),
        entries: parsed.collect::<BTreeMap<_, _>>(),
    }
}

fn read_settings(snapshot: &Snapshot) -> StoredSettings {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    StoredSettings {
        incarnation: snapshot.incarnation().map(Incarnation),
        revision: Revision(snapshot.revision()),
        fields: snapshot.iter().map(|(name, value)| (text(name), text(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::id::WorkerId;

    #[test]
    fn damaged_members_are_left_out() {
        let members = [("7", "U|0|10000|nn|n1|"), ("8", "rubbish"), ("x", "U|1|10000|nn|n1|")];
        let entries = members.into_iter().chain([("cordon:n1", "1"), ("cordon:n 2", "1"), ("n3", "1")]);
        let entries = entries.map(|(k, v)| (Bytes::from(k), Bytes::from(v)));
        let members = read_members(&Snapshot::new(5, 3, entries.collect()));
        assert_eq!(members.cordoned.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["n1"]);
        assert_eq!((members.incarnation, members.revision), (Some(Incarnation(5)), Revision(3)));
        assert_eq!(members.entries.keys().copied().collect::<Vec<_>>(), [WorkerId(7)]);
    }

    #[test]
    fn a_damaged_ring_size_is_left_out() {
        let ring_size = |text: &'static str| {
            let entries = [(Bytes::from("size"), Bytes::from(text))];
            read_members(&Snapshot::new(5, 3, entries.into())).ring_size
        };
        assert_eq!(["3", "65536"].map(ring_size), [3, 65_536]);
        assert_eq!(["65537", "4294967295", "-1", "rubbish"].map(ring_size), [0; 4]);
    }
}
