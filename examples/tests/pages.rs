//! The documents: every link leads somewhere, every page is in the index, and every program is compiled.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that compiles the programs of the pages.
const LIB: &str = include_str!("../src/lib.rs");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn pages_under(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            pages_under(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

/// All pages under this folder of the repository.
fn pages(folder: &str) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    pages_under(&root().join(folder), &mut pages);
    pages.sort();
    pages
}

/// The lines that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The targets of the links to files of the repository, with their headings.
fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.starts_with("http") && !target.contains("::")).collect()
}

/// The names by which links call the page's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = prose(text).filter(|line| line.starts_with('#'));
    let name = |title: &str| {
        let kept = title.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' '));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    titles.map(name).collect()
}

/// Why the page's link is dead, if it is.
fn dead(page: &Path, link: &str) -> Option<String> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent().unwrap().join(path) };
    if !target.exists() {
        return Some(format!("{}: {link} leads nowhere", page.display()));
    }
    let known = heading.is_empty() || headings(&fs::read_to_string(&target).unwrap()).contains(heading);
    (!known).then(|| format!("{}: {link} names no heading", page.display()))
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let pages = pages("");
    let dead: Vec<_> = pages
        .iter()
        .flat_map(|page| {
            let text = fs::read_to_string(page).unwrap();
            links(&text).into_iter().filter_map(|link| dead(page, link)).collect::<Vec<_>>()
        })
        .collect();
    assert!(pages.len() > 20 && dead.is_empty(), "{dead:#?}");
}

#[test]
fn a_dead_link_is_noticed() {
    let page = root().join("docs/README.md");
    assert_eq!(dead(&page, "concepts.md#the-lease"), None);
    assert!(dead(&page, "no-such-page.md").is_some());
    assert!(dead(&page, "concepts.md#no-such-heading").is_some());
    assert_eq!(links("a [page](x.md#y), [`T`](crate::T)\n```text\n[no](link.md)\n```"), ["x.md#y"]);
}

#[test]
fn the_index_names_every_page() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    let listed: BTreeSet<_> = links(&index).into_iter().map(str::to_owned).collect();
    let docs = root().join("docs");
    let pages = pages("docs").into_iter().map(|page| page.strip_prefix(&docs).unwrap().display().to_string());
    let missing: Vec<_> = pages.filter(|page| page != "README.md" && !listed.contains(page)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn programs_of_every_page_are_compiled() {
    let with_a_program = pages("docs").into_iter().filter(|page| {
        let text = fs::read_to_string(page).unwrap();
        text.lines().any(|line| line.starts_with("```rust") && !line.contains("ignore"))
    });
    let named = |page: &PathBuf| {
        let path = page.strip_prefix(root()).unwrap().display().to_string();
        LIB.contains(&format!("include_str!(\"../../{path}\")"))
    };
    let (compiled, forgotten): (Vec<_>, Vec<_>) = with_a_program.partition(named);
    assert!(compiled.len() > 5 && forgotten.is_empty(), "{forgotten:?}");
}
