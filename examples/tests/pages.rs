//! The documents: every link leads somewhere, every page is in the table of contents, every program is compiled or run, and every
//! command exists.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use serde_json::{Value, json};

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
fn the_table_of_contents_names_every_page_once() {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<_> = links(&contents).into_iter().map(str::to_owned).collect();
    let pages: BTreeSet<_> = pages("docs")
        .into_iter()
        .map(|page| page.strip_prefix(&docs).unwrap().display().to_string())
        .collect();
    let missing: Vec<_> =
        pages.iter().filter(|page| *page != "SUMMARY.md" && !listed.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not have: {missing:?}");
    let twice: Vec<_> =
        listed.iter().filter(|page| listed.iter().filter(|other| other == page).count() > 1).collect();
    assert!(twice.is_empty(), "docs/SUMMARY.md has these twice: {twice:?}");
}

/// A block of code: its type, the name of its file if it has one, and its lines.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    kind: &'a str,
    name: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut is_open) = (Vec::<Block<'_>>::new(), false);
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let (kind, name) = info.split_once(' ').unwrap_or((info, ""));
                blocks.push(Block { kind, name, lines: Vec::new() });
            }
        } else if let Some(block) = blocks.last_mut().filter(|_| is_open) {
            block.lines.push(line);
        }
    }
    blocks
}

/// The pages whose commands a test types, and the file with that test.
const TYPED: [(&str, &str); 3] = [
    ("getting-started-any-language.md", "cli/tests/tour.rs"),
    ("getting-started-python.md", "cli/tests/tour.rs"),
    ("how-to/on-call.md", "cli/tests/commands/pages.rs"),
];

/// Types of blocks that are no programs: shown output and settings, and commands that prepare a machine.
const SHOWN: [&str; 7] = ["acl", "nginx", "sh", "sql", "text", "toml", "yaml"];

#[test]
fn a_program_or_command_of_a_page_is_run_by_a_test() {
    let docs = root().join("docs");
    let mut strange = Vec::new();
    for page in pages("docs") {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        let typed = TYPED.iter().any(|(page, _)| *page == name);
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            let is_fine = match block.kind {
                "rust" | "rust,no_run" | "rust,compile_fail" => block.name.is_empty(),
                "console" => typed,
                "python" => typed && !block.name.is_empty(),
                kind => SHOWN.contains(&kind) && block.name.is_empty(),
            };
            if !is_fine {
                strange.push(format!("{name}: a block of type {} {}", block.kind, block.name));
            }
        }
    }
    assert!(strange.is_empty(), "no test runs these: {strange:#?}");
    for (page, test) in TYPED {
        let test = fs::read_to_string(root().join(test)).unwrap();
        assert!(test.contains(page.rsplit('/').next().unwrap()), "{page}");
    }
}

/// The commands of a page: the lines of its blocks for a shell, and what stands between backticks.
fn commands(text: &str) -> Vec<String> {
    let blocks = blocks(text).into_iter().filter(|block| matches!(block.kind, "sh" | "console" | "text"));
    let shown = |kind: &str, line: &str| match line.strip_prefix("$ ") {
        Some(command) => Some(command.to_owned()),
        None => (kind == "sh").then(|| line.to_owned()),
    };
    let mut commands: Vec<_> = blocks
        .flat_map(|block| block.lines.into_iter().filter_map(move |line| shown(block.kind, line)))
        .collect();
    let text = prose(text).collect::<Vec<_>>().join(" ");
    commands.extend(text.split('`').skip(1).step_by(2).map(str::to_owned));
    commands
}

/// The words of each call of this program in a command line, up to the end of the call.
fn calls<'a>(program: &str, command: &'a str) -> Vec<Vec<&'a str>> {
    let words: Vec<_> = command.split_whitespace().collect();
    let starts = words.iter().enumerate().filter(|(at, word)| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        let word = word.rsplit("$(").next().unwrap_or_default();
        word == program && (*at == 0 || !words[at - 1].starts_with('-'))
    });
    let ends =
        |word: &&&str| !(matches!(**word, "|" | "&&" | "||" | "#" | "--" | "&") || word.starts_with('>'));
    starts
        .map(|(at, _)| words[at + 1..].iter().take_while(ends).map(|word| word.trim_matches('"')).collect())
        .collect()
}

/// Why such a call of `tenure` cannot be, if so. The tests of the command keep the helps right.
fn impossible(call: &[&str]) -> Option<String> {
    let clean = |word: &str| word.trim_end_matches([')', ';', '`', ',', '"', '\'']).to_owned();
    let (command, rest) = call.split_first()?;
    let command = clean(command);
    if command.starts_with('-') || command.chars().any(|c| !c.is_ascii_lowercase()) {
        return None;
    }
    let Ok(help) = fs::read_to_string(root().join(format!("cli/tests/help/{command}.txt"))) else {
        return Some(format!("there is no command {command}"));
    };
    if let Some((_, below)) = help.split_once("\nCommands:\n") {
        let below: Vec<_> = below.lines().take_while(|line| !line.is_empty()).collect();
        let named = clean(rest.first()?);
        let is_there = below.iter().any(|line| line.split_whitespace().next() == Some(&*named));
        return (!is_there).then(|| format!("{command} has no {named}"));
    }
    let listed: BTreeSet<_> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .flat_map(|line| line.split([' ', ',', '=']).filter(|word| word.starts_with('-')))
        .collect();
    let options = rest.iter().map(|word| clean(word.split('=').next().unwrap_or_default()));
    let unknown = options.filter(|word| word.len() > 1 && word.starts_with('-') && !listed.contains(&**word));
    // A number, or a text that begins with a dash.
    let mut unknown =
        unknown.filter(|word| word[1..].starts_with(|c: char| c == '-' || c.is_ascii_lowercase()));
    unknown.next().map(|option| format!("{command} has no option {option}"))
}

#[test]
fn a_command_that_a_page_names_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages("").into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(&page).unwrap();
        for command in commands(&text) {
            let tenure = calls("tenure", &command);
            let faults = tenure.iter().filter_map(|call| impossible(call));
            let targets = calls("make", &command).into_iter().filter_map(|call| call.first().copied());
            let targets = targets.filter(|target| target.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
            let missing = targets.filter(|target| !makefile.contains(&format!("\n{target}:")));
            let faults = faults.chain(missing.map(|target| format!("make has no target {target}")));
            let scripts = command.split_whitespace().filter(|word| word.starts_with("scripts/"));
            let gone = scripts.filter(|script| !root().join(script.trim_end_matches([')', ';'])).exists());
            let faults = faults.chain(gone.map(|script| format!("there is no {script}")));
            wrong.extend(faults.map(|fault| format!("{}: {command}: {fault}", page.display())));
            seen += tenure.len();
        }
    }
    assert!(seen > 100, "{seen} calls were seen");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let of = |command: &str| calls("tenure", command).iter().find_map(|call| impossible(call));
    assert_eq!(of("export A=1; tenure work --name a --ttl 4s -- sh --no-such feed.sh > a.log"), None);
    assert_eq!(of("key=$(tenure ls --node a -o name | head -n 1)"), None);
    assert_eq!(of("tenure settings set join_settle=15s --yes"), None);
    assert!(of("tenure fly").is_some());
    assert!(of("tenure settings fly").is_some());
    assert!(of("tenure ls --no-such").is_some());
    assert_eq!(commands("`a` b\n```sh\nc\n```\n```text\n$ d\ne\n```"), ["c", "d", "a"]);
}

/// A page as mdBook hands it to a preprocessor.
fn chapter(page: &Path) -> Value {
    let source = page.strip_prefix(root().join("docs")).unwrap().display().to_string();
    let content = fs::read_to_string(page).unwrap();
    let path = source.replace("README.md", "index.md");
    json!({ "Chapter": { "name": "a page", "content": content, "number": null, "sub_items": [], "path": path,
        "source_path": source, "parent_names": [] } })
}

/// Where this link of this chapter leads, within the book.
fn in_the_book(chapter: &str, link: &str) -> String {
    let mut place = PathBuf::new();
    let path = link.split('#').next().unwrap_or_default();
    for part in Path::new(chapter).parent().unwrap().join(path).components() {
        if part == Component::ParentDir {
            place.pop();
        } else {
            place.push(part);
        }
    }
    place.display().to_string()
}

#[test]
fn a_link_of_the_html_book_leads_to_a_chapter() {
    let book: Vec<_> =
        pages("docs").iter().filter(|page| !page.ends_with("SUMMARY.md")).map(|page| chapter(page)).collect();
    let mut command = Command::new("python3");
    command.arg(root().join("scripts/book-repository")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut script) = command.spawn() else {
        println!("skipped: there is no python3");
        return;
    };
    let mut input = script.stdin.take().unwrap();
    let text = json!([{}, { "items": book }]).to_string();
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = script.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let book: Value = serde_json::from_slice(&output.stdout).unwrap();
    let chapters = book["items"].as_array().unwrap().iter().filter_map(|item| item.get("Chapter"));
    let chapters: Vec<_> = chapters
        .map(|chapter| (chapter["path"].as_str().unwrap(), chapter["content"].as_str().unwrap()))
        .collect();
    let paths: BTreeSet<_> = chapters.iter().map(|(path, _)| *path).collect();
    let mut dead = Vec::new();
    for (path, content) in &chapters {
        for link in links(content).into_iter().filter(|link| !link.starts_with('#')) {
            let target = in_the_book(path, link);
            let file = root().join("docs").join(&target);
            let is_picture = file.extension().is_none_or(|extension| extension != "md") && file.exists();
            if !paths.contains(&*target) && !is_picture {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(paths.contains("repository/README.md") && dead.is_empty(), "{dead:#?}");
}

#[test]
fn programs_of_every_page_are_compiled() {
    let with_a_program = pages("docs").into_iter().filter(|page| {
        let text = fs::read_to_string(page).unwrap();
        text.lines().any(|line| line.starts_with("```rust"))
    });
    let named = |page: &PathBuf| {
        let path = page.strip_prefix(root()).unwrap().display().to_string();
        LIB.contains(&format!("include_str!(\"../../{path}\")"))
    };
    let (compiled, forgotten): (Vec<_>, Vec<_>) = with_a_program.partition(named);
    assert!(compiled.len() > 5 && forgotten.is_empty(), "{forgotten:?}");
}

/// Signs of a handler in a program.
const HANDLERS: [&str; 7] =
    ["impl JobHandler", ": Job|", ": Job)", ": Job,", ": &Job", ": Ctx,", ": Delivery<"];

/// Lines with a print in a handler, or in a function that a handler may call. A print panics after the reader of the output
/// has gone, and the job fails. Programs without handlers may print, and so may a main function outside of handlers.
fn prints_of_handlers<'a>(program: &[&'a str]) -> Vec<&'a str> {
    let begins = |line: &str| HANDLERS.iter().any(|mark| line.contains(mark));
    if !program.iter().any(|line| begins(line)) {
        return Vec::new();
    }
    let (mut depth, mut main, mut handler, mut found) = (0, None, None, Vec::new());
    for line in program {
        let count = |brace| line.matches(brace).count();
        let is_main = line.contains("fn main()") || line.contains("fn example()");
        main = main.or(is_main.then_some(depth));
        handler = handler.or(begins(line).then_some(depth));
        if ["print!(", "println!("].iter().any(|print| line.contains(print))
            && (main.is_none() || handler.is_some())
        {
            found.push(*line);
        }
        depth = (depth + count('{')).saturating_sub(count('}'));
        let goes_on = |since: &usize| depth > *since;
        (main, handler) = (main.filter(goes_on), handler.filter(goes_on));
    }
    found
}

#[test]
fn no_handler_of_a_page_prints() {
    let mut pages = pages("");
    for layer in ["pool", "jobs", "sequence", "streaming", "rmap", "connection"] {
        sources_under(&root().join(layer).join("src"), &mut pages);
    }
    let (mut handlers, mut prints) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let is_source = page.extension().is_some_and(|extension| extension == "rs");
        let lines = text.lines().filter_map(|line| if is_source { documented(line) } else { Some(line) });
        let text = lines.collect::<Vec<_>>().join("\n");
        for block in blocks(&text) {
            handlers += usize::from(block.lines.iter().any(|line| line.contains("impl JobHandler")));
            let found = prints_of_handlers(&block.lines);
            prints.extend(found.iter().map(|line| format!("{}: {line}", page.display())));
        }
    }
    assert!(handlers > 3 && prints.is_empty(), "{prints:#?}");
}

/// A line of a comment of documentation, without its marks.
fn documented(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

fn sources_under(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources_under(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn a_print_of_a_handler_is_noticed() {
    let closure = [
        "fn main() {",
        "  run(|job: Job| async {",
        "    println!(\"{}\", 1);",
        "  });",
        "  println!();",
        "}",
    ];
    assert_eq!(prints_of_handlers(&closure), [closure[2]]);
    let helper = ["fn crunch() {", "  eprintln!();", "}", "async fn work(job: Job) {", "  crunch()", "}"];
    assert_eq!(prints_of_handlers(&helper), [helper[1]]);
    assert!(prints_of_handlers(&["println!();"]).is_empty(), "no handler");
}
