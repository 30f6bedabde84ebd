//! The findings in the forms of monitors: the line of a Nagios plugin, and the metrics of Prometheus.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::ValueEnum;

use super::{Figure, Finding, Severity, Unit, worst};
use crate::exit::{Code, Failure};
use crate::out::{Out, shown};

/// A monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Monitor {
    /// The answer of a Nagios plugin, and its exit status: 0 ok, 1 warning, 2 critical, 3 unknown
    Nagios,
    /// Metrics of Prometheus, for the textfile collector, also when the pool could not be examined
    Prometheus,
}

impl Monitor {
    /// Prints the findings, or why there are none.
    ///
    /// # Errors
    /// They cannot be printed, or metrics say why there are none.
    pub(super) fn print(
        self,
        out: &mut Out,
        pool: &str,
        findings: Result<Vec<Finding>, Failure>,
    ) -> Result<Code, Failure> {
        match self {
            Self::Nagios => {
                let (text, code) = nagios(pool, &findings);
                out.write_all(text.as_bytes())?;
                out.flush()?;
                Ok(code)
            }
            Self::Prometheus => {
                out.write_all(prometheus(pool, findings.as_deref().ok()).as_bytes())?;
                out.flush()?;
                findings.map(|_| Code::Done)
            }
        }
    }
}

/// The state of a service in Nagios, and the code with the number that Nagios expects: the names of codes are those of other
/// commands.
type State = (&'static str, Code);

fn state_of(severity: Severity) -> State {
    match severity {
        Severity::Ok => ("OK", Code::Done),
        Severity::Warn => ("WARNING", Code::Failed),
        Severity::Fail => ("CRITICAL", Code::Usage),
    }
}

/// Trouble of the network or of the pool is critical. Otherwise the plugin itself was asked wrongly.
fn without_findings(failure: &Failure) -> State {
    match failure.code {
        Code::Redis | Code::Late | Code::NotFound => state_of(Severity::Fail),
        _ => ("UNKNOWN", Code::NotFound),
    }
}

/// The first line says the worst, those after it say the rest. Nagios takes what follows a bar for numbers.
fn nagios(pool: &str, findings: &Result<Vec<Finding>, Failure>) -> (String, Code) {
    let plain = |text: &str| shown::plain(&text.replace('|', "/").replace(['\n', '\r'], " "));
    // None may be named.
    let of = if pool.is_empty() { String::new() } else { format!("{}: ", plain(pool)) };
    let findings = match findings {
        Ok(findings) => findings,
        Err(failure) => {
            let (state, code) = without_findings(failure);
            return (format!("TENURE {state} - {of}{}\n", plain(&failure.to_string())), code);
        }
    };
    let (state, code) = state_of(worst(findings));
    let mut bad: Vec<_> = findings.iter().filter(|finding| finding.severity > Severity::Ok).collect();
    bad.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let text = match bad.as_slice() {
        [] => format!("checks: {}, all fine", findings.len()),
        [first] => plain(&first.text),
        [first, others @ ..] => format!("{}, and {} more", plain(&first.text), others.len()),
    };
    let mut answer = format!("TENURE {state} - {of}{text} |");
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    // Label, value, the ranges of a warning and of a critical state, the least value.
    let _ = write!(answer, " warn={};0;;0 fail={};;0;0", count(Severity::Warn), count(Severity::Fail));
    for finding in findings {
        if let Some(Figure { value, unit }) = finding.figure {
            let unit = match unit {
                Unit::Jobs | Unit::Workers => "",
                Unit::Bytes => "B",
                Unit::Seconds => "s",
            };
            let _ = write!(answer, " {}={value}{unit};;;0", finding.check);
        }
    }
    answer.push('\n');
    for finding in bad {
        let (state, _) = state_of(finding.severity);
        let _ = write!(answer, "{state} {}: {}", finding.check, plain(&finding.text));
        if let Some(remedy) = &finding.remedy {
            let _ = write!(answer, " - {}", plain(remedy));
        }
        answer.push('\n');
    }
    (answer, code)
}

/// One metric for all checks, one for each unit of their numbers, and one that says whether there are any.
fn prometheus(pool: &str, findings: Option<&[Finding]>) -> String {
    let pool = label(pool);
    let mut text = String::new();
    let head = |text: &mut String, name: &str, help: &str| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    };
    head(&mut text, "tenure_doctor_up", "Whether the pool could be examined.");
    let _ = writeln!(text, "tenure_doctor_up{{pool=\"{pool}\"}} {}", u8::from(findings.is_some()));
    let findings = findings.unwrap_or_default();
    if findings.is_empty() {
        return text;
    }
    head(&mut text, "tenure_doctor_severity", "How bad a finding is: 0 ok, 1 warn, 2 fail.");
    for finding in findings {
        let severity = match finding.severity {
            Severity::Ok => 0,
            Severity::Warn => 1,
            Severity::Fail => 2,
        };
        let check = finding.check;
        let _ = writeln!(text, "tenure_doctor_severity{{pool=\"{pool}\",check=\"{check}\"}} {severity}");
    }
    let units = [
        (Unit::Jobs, "tenure_doctor_jobs", "The jobs that a finding counts."),
        (Unit::Workers, "tenure_doctor_workers", "The workers that a finding counts."),
        (Unit::Bytes, "tenure_doctor_bytes", "The memory that a finding measures."),
        (Unit::Seconds, "tenure_doctor_seconds", "The time that a finding measures."),
    ];
    for (of, name, help) in units {
        let figures = findings.iter().filter_map(|finding| Some((finding.check, finding.figure?)));
        let mut figures = figures.filter(|(_, figure)| figure.unit == of).peekable();
        if figures.peek().is_some() {
            head(&mut text, name, help);
        }
        for (check, Figure { value, .. }) in figures {
            let _ = writeln!(text, "{name}{{pool=\"{pool}\",check=\"{check}\"}} {value}");
        }
    }
    text
}

/// The value of a label.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("server.memory", "7 MiB are used").count(7 << 20, Unit::Bytes),
            Finding::warn("pool.parked", "2 jobs are parked; 2 with: a|b", "mend the cause")
                .count(2, Unit::Jobs),
            Finding::fail("pool.oldest", "the oldest job has waited\nfor 5 m", "tenure explain --any")
                .takes(Duration::from_millis(300_250)),
        ]
    }

    #[test]
    fn nagios_hears_the_worst_first_and_all_numbers() {
        let (text, code) = nagios("feeds", &Ok(findings()));
        let expected = "\
TENURE CRITICAL - feeds: the oldest job has waited for 5 m, and 1 more | warn=1;0;;0 fail=1;;0;0 \
server.memory=7340032B;;;0 pool.parked=2;;;0 pool.oldest=300.25s;;;0
CRITICAL pool.oldest: the oldest job has waited for 5 m - tenure explain --any
WARNING pool.parked: 2 jobs are parked; 2 with: a/b - mend the cause
";
        assert_eq!((text.as_str(), code), (expected, Code::Usage));
        let fine = nagios("feeds", &Ok(vec![Finding::ok("pool.hold", "x")]));
        assert_eq!(
            fine,
            ("TENURE OK - feeds: checks: 1, all fine | warn=0;0;;0 fail=0;;0;0\n".to_owned(), Code::Done)
        );
    }

    #[test]
    fn nagios_has_a_number_for_each_state() {
        let of = |findings| nagios("p", &findings).1 as u8;
        assert_eq!(of(Ok(vec![])), 0);
        assert_eq!(of(Ok(vec![Finding::warn("a", "b", "c")])), 1);
        assert_eq!(of(Ok(findings())), 2);
        for code in [Code::Redis, Code::Late, Code::NotFound] {
            assert_eq!(of(Err(Failure::new(code, "it is silent"))), 2);
        }
        assert_eq!(of(Err(Failure::usage("no pool is named"))), 3);
    }

    #[test]
    fn prometheus_has_each_finding_once_and_its_number() {
        let expected = "\
# HELP tenure_doctor_up Whether the pool could be examined.
# TYPE tenure_doctor_up gauge
tenure_doctor_up{pool=\"a\\\"b\"} 1
# HELP tenure_doctor_severity How bad a finding is: 0 ok, 1 warn, 2 fail.
# TYPE tenure_doctor_severity gauge
tenure_doctor_severity{pool=\"a\\\"b\",check=\"server.memory\"} 0
tenure_doctor_severity{pool=\"a\\\"b\",check=\"pool.parked\"} 1
tenure_doctor_severity{pool=\"a\\\"b\",check=\"pool.oldest\"} 2
# HELP tenure_doctor_jobs The jobs that a finding counts.
# TYPE tenure_doctor_jobs gauge
tenure_doctor_jobs{pool=\"a\\\"b\",check=\"pool.parked\"} 2
# HELP tenure_doctor_bytes The memory that a finding measures.
# TYPE tenure_doctor_bytes gauge
tenure_doctor_bytes{pool=\"a\\\"b\",check=\"server.memory\"} 7340032
# HELP tenure_doctor_seconds The time that a finding measures.
# TYPE tenure_doctor_seconds gauge
tenure_doctor_seconds{pool=\"a\\\"b\",check=\"pool.oldest\"} 300.25
";
        assert_eq!(prometheus("a\"b", Some(&findings())), expected);
        let down = prometheus("p", None);
        assert!(down.ends_with("\ntenure_doctor_up{pool=\"p\"} 0\n"), "{down}");
    }
}
