//! A look at the pool and the judge, and at whether the two agree.

use std::collections::{BTreeMap, BTreeSet};

use tenure_pool::inspect::{MemberState, WorkerInfo};
use tenure_pool::{JobInfo, JobState};

use super::stats::Stats;

/// The pool's view of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Whether the job has begun and not ended.
    pub running: bool,
    /// Its token.
    pub token: u64,
    /// The node of its owner, if the owner is a member.
    pub node: Option<String>,
}

/// The pool's view of a node's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crew {
    /// Workers in the ring.
    pub up: usize,
    /// Members that are not, or no longer, in the ring.
    pub others: usize,
}

/// One look.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The judge's findings.
    pub stats: Stats,
    /// The pool's jobs, by tenant.
    pub jobs: BTreeMap<String, Assignment>,
    /// The pool's workers, by node.
    pub nodes: BTreeMap<String, Crew>,
}

impl View {
    /// Combines the observations.
    pub fn new(stats: Stats, workers: &[WorkerInfo], jobs: &[JobInfo]) -> Self {
        let mut nodes: BTreeMap<_, Crew> = BTreeMap::new();
        for worker in workers {
            let crew = nodes.entry(worker.node.clone()).or_default();
            if worker.state == MemberState::Up && worker.slot.is_some() {
                crew.up += 1;
            } else {
                crew.others += 1;
            }
        }
        let assignment = |job: &JobInfo| {
            let owner = workers.iter().find(|worker| Some(worker.id) == job.owner);
            let assignment = Assignment {
                running: job.state == JobState::Running,
                token: job.token.0,
                node: owner.map(|worker| worker.node.clone()),
            };
            (String::from_utf8_lossy(job.key.as_bytes()).into_owned(), assignment)
        };
        Self { stats, nodes, jobs: jobs.iter().map(assignment).collect() }
    }

    /// The number of tenants connected from a node, according to the judge.
    pub fn tenants_on(&self, node: &str) -> usize {
        self.stats.tenants.values().filter(|standing| standing.connected && standing.node == node).count()
    }

    /// The number of these tenants that are connected.
    pub fn connected(&self, live: &BTreeSet<String>) -> usize {
        live.iter().filter(|tenant| self.stats.tenants.get(*tenant).is_some_and(|s| s.connected)).count()
    }

    /// The number of these tenants without a job or without a connection.
    pub fn lost(&self, live: &BTreeSet<String>) -> usize {
        let has_job = |tenant: &&String| self.jobs.contains_key(*tenant);
        let connected = |tenant: &&String| self.stats.tenants.get(*tenant).is_some_and(|s| s.connected);
        live.iter().filter(|tenant| !has_job(tenant) || !connected(tenant)).count()
    }

    /// A condition that is still missing when just these tenants live on just these nodes with `workers` workers each;
    /// `None` when all hold.
    pub fn unsettled(&self, live: &BTreeSet<String>, nodes: &[String], workers: usize) -> Option<String> {
        let full = Crew { up: workers, others: 0 };
        for node in nodes {
            let crew = self.nodes.get(node).copied().unwrap_or_default();
            if crew != full {
                return Some(format!(
                    "{node} to have {workers} workers in the ring and no others, not {crew:?}"
                ));
            }
        }
        if let Some(node) = self.nodes.keys().find(|node| !nodes.contains(node)) {
            return Some(format!("{node} to leave the pool"));
        }
        if let Some(tenant) = self.jobs.keys().find(|tenant| !live.contains(*tenant)) {
            return Some(format!("the job of {tenant} to end"));
        }
        if let Some((tenant, _)) = self.stats.tenants.iter().find(|(t, s)| s.connected && !live.contains(*t))
        {
            return Some(format!("{tenant} to be disconnected"));
        }
        let waiting: Vec<_> =
            live.iter().filter_map(|tenant| Some((tenant, self.unsettled_tenant(tenant)?))).collect();
        let (tenant, why) = waiting.first()?;
        Some(format!("{} tenants, such as {tenant}: {why}", waiting.len()))
    }

    fn unsettled_tenant(&self, tenant: &str) -> Option<&'static str> {
        let Some(job) = self.jobs.get(tenant) else { return Some("it has no job") };
        let Some(node) = &job.node else { return Some("its job has no living owner") };
        if !job.running {
            return Some("its job does not run");
        }
        match self.stats.tenants.get(tenant) {
            Some(standing) if !standing.connected => Some("it is not connected"),
            Some(standing) if standing.token != job.token => Some("pool and judge see different tokens"),
            Some(standing) if standing.node != *node => Some("pool and judge see different nodes"),
            Some(_) => None,
            None => Some("it was never connected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feeds::stats::Standing;

    fn settled() -> View {
        let standing = Standing {
            connected: true,
            token: 3,
            node: "n1".into(),
            worker: "n1/0".into(),
            line: 0,
            noted: BTreeMap::new(),
        };
        let job = Assignment { running: true, token: 3, node: Some("n1".into()) };
        View {
            stats: Stats { tenants: BTreeMap::from([("acme".into(), standing)]), ..Stats::default() },
            jobs: BTreeMap::from([("acme".into(), job)]),
            nodes: BTreeMap::from([("n1".into(), Crew { up: 2, others: 0 })]),
        }
    }

    fn awaited(view: &View) -> Option<String> {
        view.unsettled(&BTreeSet::from(["acme".to_owned()]), &["n1".to_owned()], 2)
    }

    #[test]
    fn a_view_in_which_all_agree_is_settled() {
        assert_eq!(awaited(&settled()), None);
    }

    #[test]
    fn any_disagreement_is_awaited() {
        type Change = fn(&mut View);
        let cases: [(&str, Change); 10] = [
            ("workers", |v| v.nodes.clear()),
            ("workers", |v| v.nodes.entry("n1".into()).or_default().others = 1),
            ("n2 to leave", |v| *v.nodes.entry("n2".into()).or_default() = Crew::default()),
            ("the job of zoo to end", |v| drop(v.jobs.insert("zoo".into(), v.jobs["acme"].clone()))),
            ("zoo to be disconnected", |v| {
                let standing = v.stats.tenants["acme"].clone();
                v.stats.tenants.insert("zoo".into(), standing);
            }),
            ("it has no job", |v| v.jobs.clear()),
            ("no living owner", |v| v.jobs.values_mut().for_each(|job| job.node = None)),
            ("does not run", |v| v.jobs.values_mut().for_each(|job| job.running = false)),
            ("different tokens", |v| v.jobs.values_mut().for_each(|job| job.token = 4)),
            ("not connected", |v| v.stats.tenants.values_mut().for_each(|s| s.connected = false)),
        ];
        for (expected, change) in cases {
            let mut view = settled();
            change(&mut view);
            let awaited = awaited(&view).unwrap_or_default();
            assert!(awaited.contains(expected), "{expected}: {awaited:?}");
        }
    }
}
