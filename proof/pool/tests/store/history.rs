//! The pool's history: entries that nodes note for people.

use std::time::Duration;

use bytes::Bytes;
use tenure_pool::store::{AwaitHistory, EntryId, HistoryPage, Note, ReadHistory, Refusal, Result};
use tenure_protocol::model::id::Incarnation;

use super::lab::{Kind, Lab, refusal};

scenarios! {
    entries_are_kept_in_order,
    a_history_keeps_as_many_entries_as_it_is_told,
    a_page_goes_on_after_the_last_one,
    an_entry_of_another_life_is_refused,
    an_entry_is_noted_while_the_pool_recovers,
    there_is_no_history_without_a_pool,
    a_lost_history_begins_anew,
    a_history_of_another_type_begins_anew,
    a_history_that_takes_no_entry_says_so,
    a_wait_for_an_entry_ends_with_it,
    a_wait_for_an_entry_ends_after_its_time,
}

impl Lab {
    async fn note(&self, most: u64, entry: &str) -> Result<()> {
        self.step(&Note { most, entry: Bytes::copy_from_slice(entry.as_bytes()) }).await
    }

    async fn page(&self, after: EntryId, limit: usize) -> HistoryPage {
        self.read(&ReadHistory { after, limit }).await.unwrap()
    }

    async fn all(&self) -> Vec<String> {
        texts(&self.page(EntryId::default(), 100).await)
    }
}

fn texts(page: &HistoryPage) -> Vec<String> {
    page.entries.iter().map(|(_, entry)| String::from_utf8_lossy(entry).into_owned()).collect()
}

async fn a_wait_for_an_entry_ends_with_it(lab: Lab) {
    let apart = lab.store().apart();
    for entry in ["one", "two"] {
        let last =
            lab.page(EntryId::default(), 100).await.entries.last().map_or(EntryId::default(), |(id, _)| *id);
        let step = AwaitHistory { after: last, block: Duration::from_secs(60) };
        let mut waits = std::pin::pin!(apart.read(&step));
        assert!(futures::poll!(&mut waits).is_pending());
        lab.note(100, entry).await.unwrap();
        assert!(waits.await.unwrap());
        assert!(apart.read(&step).await.unwrap(), "it is there already");
    }
}

async fn a_wait_for_an_entry_ends_after_its_time(lab: Lab) {
    lab.note(100, "one").await.unwrap();
    let last = lab.page(EntryId::default(), 100).await.entries[0].0;
    assert!(!lab.read(&AwaitHistory { after: last, block: Duration::from_millis(20) }).await.unwrap());
    assert!(!lab.read(&AwaitHistory { after: last, block: Duration::ZERO }).await.unwrap());
}

async fn entries_are_kept_in_order(lab: Lab) {
    assert_eq!(lab.page(EntryId::default(), 100).await, HistoryPage::default());
    for entry in ["one", "two", "two"] {
        lab.note(100, entry).await.unwrap();
    }
    let page = lab.page(EntryId::default(), 100).await;
    assert_eq!(texts(&page), ["one", "two", "two"]);
    assert_eq!(page.oldest, Some(page.entries[0].0));
    assert!(page.entries.is_sorted_by(|(a, _), (b, _)| a < b));
}

async fn a_history_keeps_as_many_entries_as_it_is_told(lab: Lab) {
    for n in 0..7 {
        lab.note(5, &n.to_string()).await.unwrap();
    }
    assert_eq!(lab.all().await, ["2", "3", "4", "5", "6"]);
    lab.note(0, "7").await.unwrap();
    assert_eq!(lab.all().await, ["7"], "at least one");
    let page = lab.page(EntryId::default(), 100).await;
    assert_eq!(page.oldest, Some(page.entries[0].0));
}

async fn a_page_goes_on_after_the_last_one(lab: Lab) {
    for n in 0..5 {
        lab.note(100, &n.to_string()).await.unwrap();
    }
    let (mut after, mut seen) = (EntryId::default(), Vec::new());
    for expected in [2, 2, 1, 0] {
        let page = lab.page(after, 2).await;
        assert_eq!(page.entries.len(), expected);
        assert!(page.oldest.is_some());
        after = page.entries.last().map_or(after, |(id, _)| *id);
        seen.extend(texts(&page));
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    assert_eq!(lab.page(EntryId::default(), 0).await.entries.len(), 1, "at least one");
}

async fn an_entry_of_another_life_is_refused(lab: Lab) {
    let entry = Bytes::from_static(b"late");
    let before = Incarnation(lab.inc.0 - 1);
    let refused = lab.refused(lab.store().run(before, &Note { most: 10, entry })).await;
    assert_eq!(refused, Refusal::StaleIncarnation(lab.inc));
}

async fn an_entry_is_noted_while_the_pool_recovers(mut lab: Lab) {
    lab.note(10, "before").await.unwrap();
    lab.recover().await;
    lab.note(10, "after").await.unwrap();
    assert_eq!(lab.all().await, ["before", "after"]);
}

async fn there_is_no_history_without_a_pool(kind: Kind) {
    let lab = Lab::blank(kind).await;
    assert_eq!(
        refusal(lab.read(&ReadHistory { after: EntryId::default(), limit: 10 }).await),
        Refusal::NoPool
    );
    assert_eq!(refusal(lab.note(10, "x").await), Refusal::NoPool);
    assert_eq!(lab.backend.dump().await.names().count(), 0);
}

async fn a_lost_history_begins_anew(lab: Lab) {
    lab.note(10, "lost").await.unwrap();
    lab.backend.lose("history").await;
    assert_eq!(lab.page(EntryId::default(), 10).await.oldest, None);
    lab.note(10, "new").await.unwrap();
    assert_eq!(lab.all().await, ["new"]);
}

/// In memory no key is of another type.
async fn a_history_of_another_type_begins_anew(kind: Kind) {
    let Kind::Redis = kind else { return };
    let lab = Lab::new(kind).await;
    lab.backend.write("SET", "history", &["of another type"]).await;
    assert_eq!(lab.page(EntryId::default(), 10).await, HistoryPage::default());
    assert!(
        !lab.read(&AwaitHistory { after: EntryId::default(), block: Duration::from_millis(20) })
            .await
            .unwrap()
    );
    lab.note(10, "new").await.unwrap();
    assert_eq!(lab.all().await, ["new"]);
}

/// In memory a history takes every entry.
async fn a_history_that_takes_no_entry_says_so(kind: Kind) {
    let Kind::Redis = kind else { return };
    let lab = Lab::new(kind).await;
    let highest = format!("{0}-{0}", u64::MAX);
    lab.backend.write("XADD", "history", &[&highest, "e", "last"]).await;
    lab.note(100, "next").await.unwrap_err();
    assert_eq!(lab.all().await, ["last"]);
}
