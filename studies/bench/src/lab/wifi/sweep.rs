//! Simulates one network, or sweeps over the values of one or two words.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_lab::wifi::Estimate;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_lab::wifi::study::{Summary, Unfinished};
use openuvr_lab::wifi::words;
use serde_json::{Value, json};

use super::RunSettings;
use super::quantities::{self, Quantity};
use crate::lab::folder::{Folder, print_table};

/// A word and its values.
struct Varied {
    name: String,
    values: Vec<String>,
}

/// Quantities shown in the terminal.
const SHOWN: [&str; 8] = [
    "packet_ms",
    "packet_p99_ms",
    "frame_ms",
    "frame_p99_ms",
    "airtime_down_percent",
    "airtime_up_percent",
    "lost_percent",
    "broken_frames_percent",
];

struct CaseResult {
    /// The values of the words that vary.
    values: Vec<String>,
    summary: Summary,
}

pub(super) fn run(
    settings: &RunSettings,
    words: &str,
    vary: &[String],
    out: &Path,
) -> Result<ExitCode> {
    let varied: Vec<Varied> = vary
        .iter()
        .map(|text| Varied::parse(text))
        .collect::<Result<_>>()?;
    ensure!(
        varied.len() <= 2,
        "--vary can be used at most twice: once for the axis of the plots, and once for their lines"
    );
    // Parse all values first, so that an invalid value ends the sweep before the first simulation, not in the middle.
    let cases = cases(words, &varied)?;
    let mut folder = settings.folder(out)?;
    folder.add_data("words", words.into());
    let (mut found, mut interrupted) = (Vec::new(), false);
    for (number, (values, scenario)) in (1..).zip(&cases) {
        let scenario = Scenario {
            lasting: settings.lasting,
            ..scenario.clone()
        };
        if !varied.is_empty() {
            eprintln!("{number} of {}: {}", cases.len(), named(&varied, values));
        }
        match settings
            .repetition
            .run(&scenario, &mut || settings.keep_going())
        {
            Ok(summary) => found.push(CaseResult {
                values: values.clone(),
                summary,
            }),
            Err(Unfinished::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(error) => bail!(error),
        }
    }
    let done = found.len();
    ensure!(
        done > 0 || !interrupted,
        "interrupted: there are no results, because no case was completed"
    );
    if interrupted {
        let missing = format!("{} of {} cases", cases.len() - done, cases.len());
        folder.add_data("incomplete", json!([missing]));
    }
    if varied.is_empty() {
        one(&mut folder, &found)?;
    } else {
        several(&mut folder, &varied, &found)?;
    }
    folder.finish()?;
    ensure!(
        !interrupted,
        "interrupted: the results of {done} of {} cases are in {}",
        cases.len(),
        out.display()
    );
    Ok(ExitCode::SUCCESS)
}

impl Varied {
    fn parse(text: &str) -> Result<Varied> {
        let (name, values) = text.split_once('=').with_context(|| {
            format!("--vary {text}: expected NAME=VALUES, such as stations=1,2,4")
        })?;
        let separator = if values.contains('|') { '|' } else { ',' };
        let values: Vec<String> = values.split(separator).map(str::to_owned).collect();
        ensure!(
            values.iter().all(|value| !value.is_empty()),
            "--vary {text}: each value must have at least one character"
        );
        Ok(Varied {
            name: name.to_owned(),
            values,
        })
    }
}

/// All cases. The value of the first word changes fastest.
fn cases(words: &str, varied: &[Varied]) -> Result<Vec<(Vec<String>, Scenario)>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for word in varied.iter().rev() {
        let before = std::mem::take(&mut all);
        for others in before {
            for value in &word.values {
                let values = [value.clone()].into_iter().chain(others.iter().cloned());
                all.push(values.collect());
            }
        }
    }
    all.into_iter()
        .map(|values| {
            let more = named(varied, &values);
            let scenario = words::parse(&format!("{words} {more}"))?;
            Ok((values, scenario))
        })
        .collect()
}

fn named(varied: &[Varied], values: &[String]) -> String {
    let pairs = varied.iter().zip(values);
    let words = pairs.map(|(word, value)| format!("{}={value}", word.name));
    words.collect::<Vec<_>>().join(" ")
}

fn shown(estimate: Option<Estimate>) -> String {
    estimate.map_or("–".to_owned(), |estimate| format!("{estimate:.3}"))
}

fn one(folder: &mut Folder, found: &[CaseResult]) -> Result<()> {
    let Some(found) = found.first() else {
        return Ok(());
    };
    let row = |quantity: &Quantity| {
        let value = shown(quantity.of(&found.summary));
        vec![quantity.words.to_owned(), value]
    };
    let rows: Vec<Vec<String>> = quantities::ALL.iter().map(row).collect();
    let heads = ["what", "mean"];
    print_table(&heads, &rows);
    folder.csv("table.csv", &heads, rows)?;
    folder.add_data("values", quantities::as_json(&found.summary));
    Ok(())
}

fn several(folder: &mut Folder, varied: &[Varied], found: &[CaseResult]) -> Result<()> {
    let names = varied.iter().map(|word| word.name.as_str());
    let row = |found: &CaseResult, of: &mut dyn Iterator<Item = &Quantity>| -> Vec<String> {
        let values = of.map(|quantity| shown(quantity.of(&found.summary)));
        found.values.iter().cloned().chain(values).collect()
    };
    let quantities = || SHOWN.iter().filter_map(|name| Quantity::named(name));
    let heads: Vec<&str> = names.clone().chain(quantities().map(|q| q.words)).collect();
    let rows: Vec<_> = found
        .iter()
        .map(|found| row(found, &mut quantities()))
        .collect();
    print_table(&heads, &rows);
    // The CSV file contains all quantities, as machine-readable numbers.
    let columns = || quantities::ALL.iter();
    let heads = names
        .map(str::to_owned)
        .chain(columns().flat_map(|quantity| {
            let name = quantity.name;
            [name.to_owned(), format!("{name}_ci95")]
        }));
    let heads: Vec<String> = heads.collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = found.iter().map(|found| {
        let values = columns().flat_map(|quantity| match quantity.of(&found.summary) {
            None => [String::new(), String::new()],
            Some(Estimate { mean, half }) => [
                mean.to_string(),
                half.map_or(String::new(), |half| half.to_string()),
            ],
        });
        found.values.iter().cloned().chain(values).collect()
    });
    folder.csv("table.csv", &heads, rows)?;
    let cases = found
        .iter()
        .map(|found| json!({"values": found.values, "found": quantities::as_json(&found.summary)}));
    let varied = varied
        .iter()
        .map(|word| json!({"name": word.name, "values": word.values}));
    folder.add_data("varied", Value::Array(varied.collect()));
    folder.add_data("cases", Value::Array(cases.collect()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_yield_all_pairs() {
        let varied = ["stations=1,2", "signal=40|30,4"].map(|text| Varied::parse(text).unwrap());
        let all = cases("profile=he-su", &varied).unwrap();
        let values: Vec<String> = all.iter().map(|(values, _)| values.join(" ")).collect();
        assert_eq!(values, ["1 40", "2 40", "1 30,4", "2 30,4"]);
        assert_eq!(all[3].1.viewers(), 2);
        assert_eq!(
            all[3].1.setup.stations[0].air.signal.unwrap().deviation,
            4.0
        );
    }

    #[test]
    fn an_impossible_word_fails_before_the_sweep() {
        let varied = [Varied::parse("mcs=11,12").unwrap()];
        let error = cases("", &varied).unwrap_err();
        assert!(error.to_string().contains("no MCS 12"), "{error}");
        for wrong in ["stations", "stations=1,,2", "stations="] {
            assert!(Varied::parse(wrong).is_err(), "{wrong}");
        }
    }
}
