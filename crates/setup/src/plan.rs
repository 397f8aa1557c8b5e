//! The selection of steps, and the text of the plan.

use std::fmt::Write as _;

use openuvr_terminal::wrap::wrapped;

use crate::changes::Reversible as _;
use crate::record::{Entry, Record};
use crate::steps::{self, Choice, Context, Plan, STEPS, State, Step};

/// A step with its state.
pub(crate) struct Examined {
    pub(crate) step: &'static dyn Step,
    pub(crate) state: State,
}

impl Examined {
    /// Examines a step. If that fails, the step counts as unavailable. Other steps are not affected.
    fn new(step: &'static dyn Step, context: &Context<'_>) -> Examined {
        let state = step.examine(context);
        let state = state.unwrap_or_else(|why| State::Unavailable(format!("{why:#}")));
        Examined { step, state }
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        match &self.state {
            State::Needed(plan) => Some(plan),
            State::Present(_) | State::Unavailable(_) => None,
        }
    }
}

/// Examines the steps that `only` names; if it is empty, the default steps. Also examines the steps that are required
/// by a step with missing changes. The result is in the order of [`STEPS`].
pub(crate) fn examine(context: &Context<'_>, only: &[String]) -> Vec<Examined> {
    let chosen = |step: &dyn Step| match only.is_empty() {
        true => step.choice() == Choice::Default,
        false => only.iter().any(|name| name == step.name()),
    };
    let mut all = Vec::new();
    for step in STEPS.iter().copied().filter(|step| chosen(*step)) {
        all.push(Examined::new(step, context));
    }
    let needed = all.iter().filter(|examined| examined.plan().is_some());
    let required: Vec<&str> = needed
        .flat_map(|one| one.step.requires())
        .copied()
        .collect();
    let mut first = Vec::new();
    for step in STEPS
        .iter()
        .copied()
        .filter(|step| required.contains(&step.name()))
    {
        first.push(Examined::new(step, context));
    }
    first.append(&mut all);
    first
}

/// The recorded steps to reverse, in reverse order: the steps that `only` names; if it is empty, all steps. A required
/// step is included if no remaining step requires it.
pub(crate) fn reversed<'a>(record: &'a Record, only: &[String]) -> Vec<&'a Entry> {
    let named = |entry: &Entry| only.is_empty() || only.contains(&entry.step);
    if !record.entries().iter().any(named) {
        return Vec::new();
    }
    let staying: Vec<&Entry> = record
        .entries()
        .iter()
        .filter(|entry| !named(entry))
        .collect();
    let selected = record.entries().iter().rev();
    selected
        .filter(|entry| named(entry) || is_unused(entry, &staying))
        .collect()
}

/// Recorded steps that are made only if another step requires them, and that no recorded step requires.
pub(crate) fn unused(record: &Record) -> Vec<&Entry> {
    let all: Vec<&Entry> = record.entries().iter().collect();
    let unused = all.iter().filter(|entry| is_unused(entry, &all));
    unused.copied().collect()
}

/// Whether the step is made only if another step requires it, and no step in `staying` requires it.
fn is_unused(entry: &Entry, staying: &[&Entry]) -> bool {
    let mut steps = staying.iter().filter_map(|entry| steps::named(&entry.step));
    is_implied(&entry.step) && !steps.any(|step| step.requires().contains(&&*entry.step))
}

fn is_implied(name: &str) -> bool {
    steps::named(name).is_some_and(|step| step.choice() == Choice::Implied)
}

const WIDTH: usize = 100;
const INDENT: &str = "    ";

/// The plan, as text.
pub(crate) fn text(examined: &[Examined], user: Option<&str>) -> String {
    let mut text = String::new();
    let needed: Vec<&Examined> = (examined.iter())
        .filter(|examined| examined.plan().is_some())
        .collect();
    if !needed.is_empty() {
        let user = user.map_or_else(String::new, |user| format!(", for the account {user}"));
        let count = needed.len();
        let steps = if count == 1 { "step" } else { "steps" };
        let _ = writeln!(text, "{count} {steps} to do{user}:\n");
    }
    let mut notes = Vec::new();
    for examined in &needed {
        let step = examined.step;
        let _ = writeln!(text, "{:14}{}", step.name(), step.about());
        for reason in step.reasons() {
            paragraph(&mut text, INDENT, reason);
        }
        for line in examined
            .plan()
            .iter()
            .flat_map(|plan| &plan.changes)
            .flat_map(|change| change.lines())
        {
            let _ = writeln!(text, "{INDENT}{INDENT}{line}");
        }
        text.push('\n');
        if let Some(note) = examined.plan().and_then(|plan| plan.note.as_deref())
            && !notes.contains(&note)
        {
            notes.push(note);
        }
    }
    for note in notes {
        paragraph(&mut text, "Note: ", note);
        text.push('\n');
    }
    list(&mut text, "Nothing to do:", examined, |state| match state {
        State::Present(why) => Some(why),
        State::Needed(_) | State::Unavailable(_) => None,
    });
    list(&mut text, "Not possible:", examined, |state| match state {
        State::Unavailable(why) => Some(why),
        State::Needed(_) | State::Present(_) => None,
    });
    let others = STEPS.iter().filter(|step| {
        let listed = examined
            .iter()
            .any(|examined| examined.step.name() == step.name());
        step.choice() == Choice::OnRequest && !listed
    });
    for step in others {
        let name = step.name();
        let _ = writeln!(
            text,
            "Only on request:\n  {name:14}{}: --only {name}",
            step.about()
        );
    }
    text
}

/// Adds a title and the steps for which `reason` returns a text.
fn list<'a>(
    text: &mut String,
    title: &str,
    examined: &'a [Examined],
    reason: impl Fn(&'a State) -> Option<&'a String>,
) {
    let reasons = examined.iter().filter_map(|examined| {
        let why = reason(&examined.state)?;
        // A step that only other steps require is not listed, because it is shown only with its changes.
        (examined.step.choice() != Choice::Implied).then_some((examined.step.name(), why))
    });
    for (i, (name, why)) in reasons.enumerate() {
        if i == 0 {
            let _ = writeln!(text, "{title}");
        }
        for (i, line) in wrapped(why, WIDTH - 16).iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            let _ = writeln!(text, "  {name:14}{line}");
        }
    }
}

fn paragraph(text: &mut String, first: &str, words: &str) {
    for (i, line) in wrapped(words, WIDTH - first.len()).iter().enumerate() {
        let start = if i == 0 { first } else { "" };
        let _ = writeln!(text, "{start:width$}{line}", width = first.len());
    }
}

/// The plan of a reversal, as text.
pub(crate) fn reversal_text(entries: &[&Entry]) -> String {
    let mut text = String::new();
    let count = entries.len();
    let steps = if count == 1 { "step" } else { "steps" };
    let _ = writeln!(text, "{count} {steps} to undo:\n");
    for entry in entries {
        let about = steps::named(&entry.step).map_or("", |step| step.about());
        let _ = writeln!(text, "{:14}{about}", entry.step);
        let (last, first): (Vec<_>, Vec<_>) = entry
            .changes
            .iter()
            .rev()
            .partition(|change| change.is_reload());
        for change in first.into_iter().chain(last) {
            let _ = writeln!(text, "{INDENT}{INDENT}{}", change.reversal());
        }
        text.push('\n');
    }
    text
}
