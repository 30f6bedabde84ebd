//! Scripts that are put together from parts without the functions that they do not call.

use std::collections::HashMap;

/// A function at the beginning of a line, `local function name(…)`, up to its `end`.
struct Function<'a> {
    name: &'a str,
    lines: std::ops::Range<usize>,
}

/// The script without the functions that nothing in it names.
///
/// Redis runs the whole text of a script at each call: it makes all functions anew. So a part that many scripts share
/// costs each of them the functions that only others call, about 0.1 µs each.
///
/// A function is left out if it begins a line as `local function name(…)`, and ends with ` end` in that line, or at a line
/// that is nothing but `end`. All lines between are indented, empty or comments; else the function is kept. A word in a
/// string or behind code counts as a name, a line that is all comment does not.
pub fn without_unused_functions(source: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let functions = functions(&lines);
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, function) in functions.iter().enumerate() {
        by_name.entry(function.name).or_default().push(i);
    }
    let named = |range: std::ops::Range<usize>| {
        let code = lines[range].iter().filter(|line| !line.trim_start().starts_with("--"));
        code.flat_map(|line| words(line)).filter_map(|word| by_name.get(word)).flatten().copied()
    };
    let mut used = vec![false; functions.len()];
    let mut open = Vec::new();
    let mut from = 0;
    for function in &functions {
        open.extend(named(from..function.lines.start));
        from = function.lines.end;
    }
    open.extend(named(from..lines.len()));
    while let Some(i) = open.pop() {
        if !std::mem::replace(&mut used[i], true) {
            open.extend(named(functions[i].lines.clone()));
        }
    }
    let unused = functions.iter().zip(used).filter(|(_, used)| !used);
    let mut kept = vec![true; lines.len()];
    unused.for_each(|(function, _)| kept[function.lines.clone()].fill(false));
    let mut text = String::with_capacity(source.len());
    for line in lines.iter().zip(kept).filter_map(|(line, kept)| kept.then_some(line)) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn functions<'a>(lines: &[&'a str]) -> Vec<Function<'a>> {
    let mut functions = Vec::new();
    let mut i = 0;
    while i < lines.len() {
        let declared = lines[i].strip_prefix("local function ").and_then(|rest| rest.split_once('('));
        match (declared, end_of(&lines[i..])) {
            (Some((name, _)), Some(length)) => {
                functions.push(Function { name, lines: i..i + length });
                i += length;
            }
            _ => i += 1,
        }
    }
    functions
}

/// How many lines a function has that begins with the first one; `None` where that is in doubt.
fn end_of(lines: &[&str]) -> Option<usize> {
    if lines[0].ends_with(" end") {
        return Some(1);
    }
    let is_inside = |line: &&str| line.is_empty() || line.starts_with([' ', '\t', '-']);
    let inside = lines[1..].iter().take_while(|line| is_inside(line)).count();
    (lines.get(1 + inside) == Some(&"end")).then_some(inside + 2)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = "#!lua
-- first() is explained here.
local function first() return 1 end
local function second(n)
  if n then
    return first()
  end
end
local function third() return second() end
local function alone() return alone() end
";

    #[test]
    fn functions_that_nothing_calls_are_left_out() {
        let script = format!("{PARTS}return 2\n");
        assert_eq!(without_unused_functions(&script), "#!lua\n-- first() is explained here.\nreturn 2\n");
    }

    #[test]
    fn functions_are_kept_for_those_that_are_called() {
        let script = format!("{PARTS}return third(1)\n");
        let kept = without_unused_functions(&script);
        assert_eq!(kept, script.replace("local function alone() return alone() end\n", ""));
        assert_eq!(without_unused_functions(&kept), kept);
    }

    #[test]
    fn a_function_whose_end_is_in_doubt_is_kept() {
        for doubtful in
            ["local function f()\n  g() end -- why\nreturn 2\n", "local function f()\n  g()\nreturn 2\nend\n"]
        {
            assert_eq!(without_unused_functions(doubtful), doubtful);
        }
    }

    #[test]
    fn a_name_in_a_string_or_a_longer_word_is_told_apart() {
        assert!(without_unused_functions(&format!("{PARTS}return 'first'\n")).contains("function first"));
        assert!(!without_unused_functions(&format!("{PARTS}return at_first\n")).contains("function first"));
    }
}
