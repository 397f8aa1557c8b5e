//! The doctor's findings, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::Role;
use openuvr_terminal::wrap::wrapped;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum Level {
    #[serde(rename = "ok")]
    Ok,
    #[serde(rename = "could be better")]
    Better,
    #[serde(rename = "missing")]
    Missing,
    /// The device is absent, as on most machines. This is not a problem.
    #[serde(rename = "not here")]
    Absent,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Better => "could be better",
            Level::Missing => "missing",
            Level::Absent => "not here",
        }
    }

    /// The colour on a terminal (ECMA-48 SGR): green, yellow, red, faint.
    const fn colour(self) -> u8 {
        match self {
            Level::Ok => 32,
            Level::Better => 33,
            Level::Missing => 31,
            Level::Absent => 2,
        }
    }
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) name: String,
    pub(super) level: Level,
    /// The result, in one line.
    #[serde(rename = "what")]
    pub(super) summary: String,
    /// The remedy, in one line, with the command.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &str, summary: impl Into<String>) -> Finding {
        Finding {
            name: name.to_owned(),
            level: Level::Ok,
            summary: summary.into(),
            remedy: None,
        }
    }

    pub(super) fn better(
        name: &str,
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Better,
            remedy: Some(remedy.into()),
            ..Finding::ok(name, summary)
        }
    }

    pub(super) fn absent(
        name: &str,
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Absent,
            ..Finding::better(name, summary, remedy)
        }
    }

    pub(super) fn missing(
        name: &str,
        summary: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Missing,
            ..Finding::better(name, summary, remedy)
        }
    }
}

/// All findings, by area.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) role: Role,
    pub(super) areas: Vec<(&'static str, Vec<Finding>)>,
}

#[derive(Serialize)]
pub(super) struct Json<'a> {
    role: Role,
    can_run: bool,
    findings: Vec<InArea<'a>>,
}

#[derive(Serialize)]
struct InArea<'a> {
    area: &'static str,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// The indentation of a finding's text, and the maximum line length.
const INDENT: usize = 40;
const WIDTH: usize = 100;

impl Report {
    pub(super) fn can_run(&self) -> bool {
        self.count(Level::Missing) == 0
    }

    pub(super) fn as_json(&self) -> Json<'_> {
        let findings = self.areas.iter().flat_map(|&(area, ref findings)| {
            findings.iter().map(move |finding| InArea { area, finding })
        });
        Json {
            role: self.role,
            can_run: self.can_run(),
            findings: findings.collect(),
        }
    }

    /// Replaces the findings about absent devices by a single finding in each area.
    pub(super) fn summarised(mut self) -> Report {
        let is_absent = |finding: &Finding| finding.level == Level::Absent;
        for (_, findings) in &mut self.areas {
            let absent = findings.iter().filter(|finding| is_absent(finding));
            let names = Vec::from_iter(absent.map(|finding| finding.name.as_str())).join(", ");
            let Some(first) = findings.iter().position(is_absent) else {
                continue;
            };
            let remedy = "openuvr doctor --all shows the reasons and remedies";
            let summary = Finding::absent("other devices", names, remedy);
            findings.retain(|finding| !is_absent(finding));
            findings.insert(first, summary);
        }
        self
    }

    pub(super) fn text(&self, colours: bool) -> String {
        let mut text = String::new();
        for (area, findings) in &self.areas {
            let _ = writeln!(text, "{area}");
            for finding in findings {
                add(&mut text, finding, colours);
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    fn verdict(&self) -> String {
        let role = match self.role {
            Role::Host => "a host",
            Role::Client => "a client",
            Role::Both => "both host and client",
        };
        let better = match self.count(Level::Better) {
            0 => "no improvements found".to_owned(),
            1 => "1 possible improvement".to_owned(),
            n => format!("{n} possible improvements"),
        };
        match self.count(Level::Missing) {
            0 => format!("This machine can be {role}; {better}."),
            1 => format!("This machine can't be {role}: 1 requirement is missing; {better}."),
            n => format!("This machine can't be {role}: {n} requirements are missing; {better}."),
        }
    }

    fn count(&self, level: Level) -> usize {
        let all = self.areas.iter().flat_map(|(_, findings)| findings);
        all.filter(|finding| finding.level == level).count()
    }
}

fn add(text: &mut String, finding: &Finding, colours: bool) {
    let (level, name) = (finding.level, &finding.name);
    let padded = format!("{:15}", level.word());
    let word = match colours {
        true => format!("\x1b[{}m{padded}\x1b[0m", level.colour()),
        false => padded,
    };
    let lines = wrapped(&finding.summary, WIDTH - INDENT);
    let mut lines = lines.iter();
    let first = lines.next().map_or("", String::as_str);
    let _ = writeln!(text, "  {word}  {name:20} {first}");
    for line in lines {
        let _ = writeln!(text, "{:INDENT$}{line}", "");
    }
    for (i, line) in (finding.remedy.iter())
        .flat_map(|remedy| wrapped(remedy, WIDTH - INDENT - 3))
        .enumerate()
    {
        let arrow = if i == 0 { "->" } else { "  " };
        let _ = writeln!(text, "{:INDENT$}{arrow} {line}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let long = "a sentence that is longer than the space in one line beside its name, so \
                    that it has to be broken";
        Report {
            role: Role::Client,
            areas: vec![
                ("One", vec![Finding::ok("good", long)]),
                (
                    "Two",
                    vec![
                        Finding::absent("rare", "few have it", "buy it"),
                        Finding::better("so-so", "it is slow", "sudo make-it-fast"),
                        Finding::missing("bad", "it is not there", "apt install it"),
                    ],
                ),
            ],
        }
    }

    #[test]
    fn columns_are_aligned_and_remedies_below_their_findings() {
        let text = report().text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "One");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(lines[1].find("a sentence"), Some(INDENT));
        assert!(lines[2].starts_with(&" ".repeat(INDENT)), "{text}");
        let slow = lines.iter().position(|line| line.contains("it is slow"));
        let remedy = lines[slow.unwrap() + 1];
        assert_eq!(remedy.trim(), "-> sudo make-it-fast");
        assert_eq!(
            *lines.last().unwrap(),
            "This machine can't be a client: 1 requirement is missing; 1 possible improvement."
        );
        assert!(report().text(true).contains("\x1b[31mmissing"));
    }

    #[test]
    fn absent_devices_of_an_area_are_one_finding() {
        let report = Report {
            role: Role::Host,
            areas: vec![
                ("One", vec![Finding::ok("good", "it works")]),
                (
                    "Two",
                    vec![
                        Finding::ok("good", "it works"),
                        Finding::absent("rare", "few have it", "buy it"),
                        Finding::better("so-so", "it is slow", "sudo make-it-fast"),
                        Finding::absent("exotic", "few have it", "buy it"),
                    ],
                ),
            ],
        };
        let report = report.summarised();
        let names = |nth: usize| {
            let (_, findings) = &report.areas[nth];
            Vec::from_iter(findings.iter().map(|finding| finding.name.as_str()))
        };
        assert_eq!(names(0), ["good"]);
        assert_eq!(names(1), ["good", "other devices", "so-so"]);
        assert_eq!(report.areas[1].1[1].summary, "rare, exotic");
    }

    #[test]
    fn json_has_each_finding_with_its_area_and_the_verdict() {
        let json = serde_json::to_value(report().as_json()).unwrap();
        assert_eq!(json["role"], "client");
        assert_eq!(json["can_run"], false);
        let findings = json["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 4);
        assert_eq!(findings[1]["level"], "not here");
        assert_eq!(findings[2]["area"], "Two");
        assert_eq!(findings[2]["level"], "could be better");
        assert_eq!(findings[2]["do"], "sudo make-it-fast");
        assert!(findings[0].get("do").is_none());
    }
}
