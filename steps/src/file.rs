//! A script's file: the name, and the facts in the header.

/// The Lua file of a script.
///
/// The file's name is `<script>-<number of KEYS>`, with a `+` when the keys of a call follow. The header is a block of
/// comments below the first line:
///
/// ```lua
/// #!lua flags=allow-oom
/// -- Wakes and ends jobs.
/// -- KEYS: pool jobs, then the stream of each worker
/// -- ARGV: incarnation, jobs
/// -- Returns: OK, a letter per job: K told | Q queued |
/// --          X bad record; then the owner per Q
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    name: &'static str,
    source: &'static str,
    answers: &'static [&'static [u8]],
}

impl File {
    /// A file with this name, without `.lua`, and this text.
    pub const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, answers: &[] }
    }

    /// The same file, whose script answers with these [`Letters`](crate::Letters), list by list.
    #[must_use]
    pub const fn answering(self, answers: &'static [&'static [u8]]) -> Self {
        Self { answers, ..self }
    }

    /// The declared letters of the script's answer, list by list.
    pub const fn answers(&self) -> &'static [&'static [u8]] {
        self.answers
    }

    /// The file's name, such as `steer-9+`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The script's name, such as `steer`.
    pub fn script(&self) -> &'static str {
        self.name.rsplit_once('-').map_or(self.name, |(script, _)| script)
    }

    /// The file's text.
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// Whether a server with full memory refuses the script. The server goes by the flags in the first line, too.
    pub fn needs_memory(&self) -> bool {
        let first = self.source.lines().next().unwrap_or_default();
        let mut flags = first.split_once("flags=").map_or("", |(_, flags)| flags).split(',');
        !flags.any(|flag| matches!(flag, "allow-oom" | "no-writes"))
    }

    /// The keys of the line `KEYS`, up to the first comma.
    pub fn keys(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for word in self.words_of("KEYS") {
            names.push(word.trim_end_matches(','));
            if word.ends_with(',') {
                break;
            }
        }
        names
    }

    /// The words of a line of the header, such as `KEYS` or `Returns`. The lines that go on are indented.
    pub fn words_of(&self, line: &str) -> impl Iterator<Item = &'static str> {
        let head = format!("-- {line}: ");
        let indent = format!("--{}", " ".repeat(head.len() - 2));
        let mut lines = self.source.lines().skip_while({
            let head = head.clone();
            move |line| !line.starts_with(&head)
        });
        let first = lines.next().and_then(|line| line.strip_prefix(&head));
        let more = lines.map_while(move |line| line.strip_prefix(&indent));
        first.into_iter().chain(more).flat_map(str::split_whitespace)
    }

    /// The lists of letters of the line `Returns`, each behind `a letter per item: ` and up to a semicolon or the end of
    /// the sentence.
    pub fn letters(&self) -> Vec<Vec<u8>> {
        let text = self.words_of("Returns").collect::<Vec<_>>().join(" ");
        let letter = |meaning: &str| match meaning.split_whitespace().next()?.as_bytes() {
            &[letter] => Some(letter),
            _ => None,
        };
        let lists = text.split("a letter per ").skip(1).filter_map(|list| Some(list.split_once(": ")?.1));
        let lists = lists.map(|list| list.split(['.', ';']).next().unwrap_or_default());
        lists.map(|list| list.split('|').filter_map(letter).collect()).collect()
    }

    /// The Lua names of the script's keys as a statement, with the line's end, such as
    /// `local POOL, JOBS = KEYS[1], KEYS[2]`. `more` are further names and their values in Lua.
    pub fn key_locals(&self, more: &[(&str, &str)]) -> String {
        let keys = self.keys();
        let names = keys.iter().map(|name| name.to_uppercase());
        let names: Vec<_> = names.chain(more.iter().map(|(name, _)| (*name).to_owned())).collect();
        let values = (1..=keys.len()).map(|i| format!("KEYS[{i}]"));
        let values: Vec<_> = values.chain(more.iter().map(|(_, value)| (*value).to_owned())).collect();
        format!("local {} = {}\n", names.join(", "), values.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEER: File = File::new(
        "steer_now-2+",
        "#!lua flags=no-cluster,allow-oom
-- Wakes and ends jobs. KEYS: none of these
-- KEYS: pool
--       jobs, then the stream of each worker
-- ARGV: incarnation
-- Returns: OK, a letter per worker: F full; a letter per job: K told | Q queued, now or before |
--          - nothing done; then the owner per Q. STALE
return 1
--       no_key
",
    );

    #[test]
    fn the_header_names_keys_letters_and_flags() {
        assert_eq!((STEER.script(), STEER.keys()), ("steer_now", vec!["pool", "jobs"]));
        assert_eq!(STEER.words_of("KEYS").last(), Some("worker"));
        assert_eq!(STEER.letters(), [&b"F"[..], b"KQ-"]);
        assert!(!STEER.needs_memory());
    }

    #[test]
    fn a_bare_script_has_no_keys_and_no_letters() {
        let bare = File::new("bare", "#!lua\nreturn 1\n");
        assert_eq!((bare.script(), bare.keys(), bare.letters()), ("bare", vec![], vec![]));
        assert!(bare.needs_memory());
        let words = File::new("words-0", "#!lua\n-- Returns: OK, a letter per job that begins\n");
        assert!(words.letters().is_empty());
    }

    #[test]
    fn readers_need_no_memory_and_other_flags_do_not_matter() {
        let needs = |first: &'static str| File::new("f-0", first).needs_memory();
        assert!(needs("#!lua flags=no-cluster"));
        assert!(!needs("#!lua flags=no-writes\n-- flags"));
    }

    #[test]
    fn keys_are_named_in_order_and_other_names_follow() {
        assert_eq!(STEER.key_locals(&[]), "local POOL, JOBS = KEYS[1], KEYS[2]\n");
        let more = STEER.key_locals(&[("CHANNEL", "'c'")]);
        assert_eq!(more, "local POOL, JOBS, CHANNEL = KEYS[1], KEYS[2], 'c'\n");
    }
}
