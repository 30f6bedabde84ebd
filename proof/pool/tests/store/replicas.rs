//! The replicated members and settings.

use std::sync::Arc;
use std::time::Duration;

use tenure_pool::store::{CleanUp, ReadPool, ShutDown, ShutdownMode};
use tenure_protocol::model::id::{Revision, WorkerId};
use tenure_protocol::model::member::{MemberState, Members};
use tenure_protocol::model::settings::StoredSettings;
use tokio::sync::watch::Receiver;

use super::lab::{Kind, Lab, ms, node};
use super::single::Single as _;

const SOON: Duration = Duration::from_secs(20);

scenarios! {
    members_are_followed,
    settings_are_followed,
    an_incarnation_is_followed,
    a_closed_pool_has_no_members,
    a_hint_makes_a_replica_look,
    changes_without_a_revision_are_read_again_on_request,
}

async fn members(watch: &mut Receiver<Arc<Members>>, is: impl FnMut(&Arc<Members>) -> bool) -> Arc<Members> {
    let found = tokio::time::timeout(SOON, watch.wait_for(is)).await;
    found.expect("the replica does not follow").unwrap().clone()
}

async fn settings(
    watch: &mut Receiver<Arc<StoredSettings>>,
    is: impl FnMut(&Arc<StoredSettings>) -> bool,
) -> Arc<StoredSettings> {
    let found = tokio::time::timeout(SOON, watch.wait_for(is)).await;
    found.expect("the replica does not follow").unwrap().clone()
}

async fn members_are_followed(lab: Lab) {
    let mut watch = lab.store().members();
    let seat = lab.join().await;
    let seen = members(&mut watch, |members| !members.entries.is_empty()).await;
    assert_eq!((seen.incarnation, seen.revision), (Some(lab.inc), lab.revision().await));
    assert_eq!(seen.entries[&seat.worker], seat.member);
    lab.dispatch("there", "node1.there").await;
    let standby = lab.join().await.worker;
    lab.store().drain_one(lab.inc, seat.worker).await.unwrap();
    let revision = lab.revision().await;
    let seen = members(&mut watch, |members| members.revision == revision).await;
    let states: Vec<_> = seen.entries.values().map(|member| (member.state, member.slot)).collect();
    assert_eq!(states, [(MemberState::Draining, Some(0)), (MemberState::Up, Some(0))]);
    lab.store().expire_one(lab.inc, seat.worker, None).await.unwrap();
    let seen = members(&mut watch, |members| members.revision > revision).await;
    assert_eq!(seen.entries.keys().collect::<Vec<_>>(), [&standby]);
}

async fn settings_are_followed(lab: Lab) {
    let mut watch = lab.store().settings();
    let seen = settings(&mut watch, |settings| settings.incarnation == Some(lab.inc)).await;
    let fields: Vec<_> = seen.fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut expected = lab.settings.fields();
    expected.sort();
    assert_eq!((fields, seen.flag()), (expected, None));
    let flag = lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let seen = settings(&mut watch, |settings| settings.flag().is_some()).await;
    assert_eq!((seen.flag(), seen.revision), (flag, Revision(2)));
}

async fn an_incarnation_is_followed(mut lab: Lab) {
    let seat = lab.join().await;
    let (mut watch, mut stored) = (lab.store().members(), lab.store().settings());
    lab.recover().await;
    let inc = lab.inc;
    let seen = members(&mut watch, |members| members.incarnation == Some(inc)).await;
    assert_eq!(seen.entries.keys().collect::<Vec<_>>(), [&seat.worker]);
    settings(&mut stored, |settings| settings.incarnation == Some(inc)).await;
}

async fn a_closed_pool_has_no_members(lab: Lab, worker: WorkerId) {
    let mut watch = lab.store().members();
    members(&mut watch, |members| members.entries.contains_key(&worker)).await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    lab.leave(worker).await;
    lab.step(&CleanUp { tombstone: SOON }).await.unwrap();
    let seen = members(&mut watch, |members| members.incarnation.is_none()).await;
    assert!(seen.entries.is_empty());
}

async fn a_hint_makes_a_replica_look(lab: Lab) {
    let mut watch = lab.store().members();
    let inc = lab.inc;
    members(&mut watch, |members| members.incarnation == Some(inc)).await;
    lab.backend.wipe().await;
    lab.store().expect(lab.inc, Revision(9), Revision(9));
    let seen = members(&mut watch, |members| members.incarnation.is_none()).await;
    assert_eq!(seen.revision, Revision(0));
    lab.store().expect(lab.inc, Revision(9), Revision(9));
    assert_eq!(lab.read(&ReadPool { consumer: node("n1"), max: 1, block: ms(0) }).await.unwrap(), None);
}

async fn changes_without_a_revision_are_read_again_on_request(kind: Kind) {
    let lab = Lab::new(kind).await;
    let seat = lab.join().await;
    let (mut watch, mut stored) = (lab.store().members(), lab.store().settings());
    members(&mut watch, |members| members.entries.contains_key(&seat.worker)).await;
    settings(&mut stored, |settings| settings.fields.contains_key("strikes")).await;
    lab.backend.forget_setting("strikes").await;
    lab.store().reread(false);
    settings(&mut stored, |settings| !settings.fields.contains_key("strikes")).await;
    if let Kind::Memory = kind {
        return; // Nobody can write to the members.
    }
    lab.backend.raw(::redis::cmd("HDEL").arg(lab.backend.key("workers")).arg(seat.worker.0)).await;
    lab.store().reread(true);
    members(&mut watch, |members| members.entries.is_empty()).await;
}
