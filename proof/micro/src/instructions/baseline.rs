//! The accepted figures, and their comparison with new figures.

use std::fmt;

use super::made_with::MadeWith;

/// How much more a case may cost than was accepted, in per cent, if the same tools made both figures. Inlining
/// changes with code elsewhere, and moves a figure by two or three per cent.
const MARGIN: u64 = 5;
/// The same for figures of other tools, which compile the same source to other code.
const WIDE_MARGIN: u64 = 25;
/// A case may also cost this many instructions more. For the smallest cases that is more than the margin.
const SLACK: u64 = 4;

const HEADER: &str =
    "# Instructions per item of the micro-benchmarks, counted by callgrind; see \"Speed\" in CONTRIBUTING.md.
# `make instructions ACCEPT=1` writes this file.
";
const MADE_WITH: &str = "# made with: ";

/// The file of accepted figures.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    /// `None` in a file without figures.
    pub(crate) made_with: Option<MadeWith>,
    pub(crate) counts: Vec<(String, u64)>,
}

impl Baseline {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let made_with =
            text.lines().find_map(|line| line.strip_prefix(MADE_WITH)).map(str::parse).transpose()?;
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let count = |line: &str| {
            let (name, count) = line.split_once(char::is_whitespace)?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        let counts = lines.map(|line| count(line).ok_or_else(|| format!("{line:?} is no figure")));
        let counts = counts.collect::<Result<Vec<_>, _>>()?;
        if made_with.is_none() && !counts.is_empty() {
            return Err("the figures do not say what they were made with".into());
        }
        Ok(Self { made_with, counts })
    }

    /// Compares new figures, made `here`, with the accepted ones.
    pub(crate) fn judge(&self, here: &MadeWith, now: &[(String, u64)]) -> Verdict {
        let tools = match &self.made_with {
            None => Tools::Same,
            Some(made_with) if made_with == here => Tools::Same,
            Some(made_with) if made_with.processor == here.processor => {
                Tools::Others(made_with.clone(), here.clone())
            }
            Some(made_with) => Tools::Foreign(made_with.clone(), here.clone()),
        };
        let find = |list: &[(String, u64)], name: &str| {
            list.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
        };
        let known = now.iter().map(|(name, now)| {
            let accepted = find(&self.counts, name);
            Row { name: name.clone(), accepted, now: Some(*now) }
        });
        let gone = self.counts.iter().filter(|(name, _)| find(now, name).is_none());
        let gone =
            gone.map(|(name, accepted)| Row { name: name.clone(), accepted: Some(*accepted), now: None });
        Verdict { tools, rows: known.chain(gone).collect() }
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        if let Some(made_with) = &self.made_with {
            writeln!(f, "{MADE_WITH}{made_with}")?;
        }
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{name:<24} {count:>9}"))
    }
}

/// Whether two sets of figures can be compared.
#[derive(Debug)]
enum Tools {
    Same,
    /// Roughly comparable: the tools of the accepted figures, and these.
    Others(MadeWith, MadeWith),
    /// Not comparable.
    Foreign(MadeWith, MadeWith),
}

/// One case.
#[derive(Debug)]
struct Row {
    name: String,
    accepted: Option<u64>,
    now: Option<u64>,
}

/// The result of the comparison.
#[derive(Debug)]
pub(crate) struct Verdict {
    tools: Tools,
    rows: Vec<Row>,
}

impl Verdict {
    fn margin(&self) -> Option<u64> {
        match self.tools {
            Tools::Same => Some(MARGIN),
            Tools::Others(..) => Some(WIDE_MARGIN),
            Tools::Foreign(..) => None,
        }
    }

    /// The fault of a case, if it has one.
    fn wrong(&self, row: &Row) -> Option<&'static str> {
        match (row.accepted, row.now) {
            (None, _) => Some("new: accept it"),
            (_, None) => Some("gone: accept that"),
            (Some(accepted), Some(now)) => {
                let most = accepted + accepted * self.margin()? / 100 + SLACK;
                (now > most).then_some("MORE THAN IT MAY")
            }
        }
    }

    /// Whether no case has a fault.
    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| self.wrong(row).is_none())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>10} {:>7}  instructions per item", "case", "accepted", "now", "ratio")?;
        for row in &self.rows {
            let figure = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
            let ratio = match (row.accepted, row.now) {
                (Some(accepted), Some(now)) => format!("{:.3}", now as f64 / accepted.max(1) as f64),
                _ => "-".into(),
            };
            let less = match (row.accepted, row.now) {
                (Some(accepted), Some(now)) if now + now * MARGIN / 100 + SLACK < accepted => {
                    "less: accept it, so that it stays"
                }
                _ => "",
            };
            let (accepted, now) = (figure(row.accepted), figure(row.now));
            let remark = self.wrong(row).unwrap_or(less);
            writeln!(
                f,
                "{}",
                format!("{:<24} {accepted:>10} {now:>10} {ratio:>7}  {remark}", row.name).trim_end()
            )?;
        }
        match &self.tools {
            Tools::Same => {}
            Tools::Others(theirs, here) => writeln!(
                f,
                "OTHER TOOLS: accepted were figures of\n  {theirs}\nand these are of\n  {here}\nTherefore {WIDE_MARGIN} % more is \
                 let pass, not {MARGIN} %. To be as strict as that again, accept the figures of these tools with code that \
                 is known to be as fast as before."
            )?,
            Tools::Foreign(theirs, here) => writeln!(
                f,
                "NOT COMPARED: accepted were figures of {}, and these are of {}.",
                theirs.processor, here.processor
            )?,
        }
        if self.is_good() {
            return Ok(());
        }
        let margin = self.margin().unwrap_or(MARGIN);
        writeln!(
            f,
            "At most {margin} % more than accepted may it be. If it has to be more, or a case is new or gone: `make \
             instructions ACCEPT=1`, and say in the commit what the instructions are for."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(rustc: &str, processor: &str) -> MadeWith {
        let of = |text: &str| text.to_owned();
        MadeWith {
            processor: of(processor),
            rustc: of(rustc),
            libc: of("glibc 2"),
            valgrind: of("valgrind-3"),
        }
    }

    fn counts(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn accepted() -> Baseline {
        Baseline { made_with: Some(tools("rustc 1", "x86_64")), counts: counts(&[("a", 1_000), ("b", 200)]) }
    }

    #[test]
    fn accepted_figures_are_read_as_they_were_written() {
        assert_eq!(Baseline::parse(&accepted().to_string()), Ok(accepted()));
        assert_eq!(Baseline::parse(""), Ok(Baseline { made_with: None, counts: vec![] }));
        for damaged in ["a 1", "# made with: rustc 1\na 1", "# made with: a; b; c; d\na much"] {
            assert!(Baseline::parse(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_case_may_cost_a_twentieth_more_and_no_more() {
        let same = tools("rustc 1", "x86_64");
        let judge = |a, b| accepted().judge(&same, &counts(&[("a", a), ("b", b)]));
        assert!(judge(1_054, 100).is_good());
        let verdict = judge(1_055, 200);
        assert!(!verdict.is_good());
        let text = verdict.to_string();
        assert!(text.contains("MORE THAN IT MAY") && text.contains("ACCEPT=1"), "{text}");
    }

    #[test]
    fn other_tools_are_named_and_may_need_more() {
        let other = tools("rustc 2", "x86_64");
        let verdict = accepted().judge(&other, &counts(&[("a", 1_254), ("b", 200)]));
        assert!(verdict.is_good());
        let text = verdict.to_string();
        assert!(
            text.contains("OTHER TOOLS") && text.contains("rustc 1") && text.contains("rustc 2"),
            "{text}"
        );
        assert!(!accepted().judge(&other, &counts(&[("a", 1_255), ("b", 200)])).is_good());
    }

    #[test]
    fn another_processor_says_that_nothing_was_compared() {
        let verdict = accepted().judge(&tools("rustc 1", "aarch64"), &counts(&[("a", 9_000), ("b", 9_000)]));
        assert!(verdict.is_good() && verdict.to_string().contains("NOT COMPARED"));
    }

    #[test]
    fn a_case_that_is_new_or_gone_has_to_be_accepted() {
        let same = tools("rustc 1", "x86_64");
        for now in [&[("a", 1_000)][..], &[("a", 1_000), ("b", 200), ("c", 1)]] {
            assert!(!accepted().judge(&same, &counts(now)).is_good());
        }
    }
}
