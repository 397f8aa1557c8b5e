//! Detects changes of sessions for engines that can only list them.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::time::sleep;

use super::{LaunchError, Observed, Phase, SessionId};

/// Lists the sessions every `interval` and reports the differences. A session that has disappeared without a reported
/// end is reported as lost, because engines may forget sessions.
pub(super) fn changes<Ask, Answer>(
    interval: Duration,
    ask: Ask,
) -> BoxStream<'static, Result<Observed, LaunchError>>
where
    Ask: Fn() -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Vec<Observed>, LaunchError>> + Send,
{
    let known: Option<BTreeMap<SessionId, Observed>> = None;
    let told = stream::unfold((known, ask), move |(known, ask)| async move {
        if known.is_some() {
            sleep(interval).await;
        }
        let known = known.unwrap_or_default();
        let (news, known) = match ask().await {
            Ok(all) => {
                let (news, known) = compare(known, all);
                (news.into_iter().map(Ok).collect(), known)
            }
            Err(why) => (vec![Err(why)], known),
        };
        Some((stream::iter(news), (Some(known), ask)))
    });
    told.flatten().boxed()
}

fn compare(
    mut before: BTreeMap<SessionId, Observed>,
    all: Vec<Observed>,
) -> (Vec<Observed>, BTreeMap<SessionId, Observed>) {
    let now: BTreeMap<_, _> = all.into_iter().map(|of| (of.session, of)).collect();
    let mut news = Vec::new();
    for (session, of) in &now {
        if before.remove(session).as_ref() != Some(of) {
            news.push(of.clone());
        }
    }
    for (_, gone) in before {
        if !gone.phase.is_final() {
            let phase = Phase::Lost {
                since: SystemTime::now(),
            };
            news.push(Observed { phase, ..gone });
        }
    }
    (news, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_session_is_lost_once() {
        let of = |session, phase| Observed {
            session,
            user: String::new(),
            application: String::new(),
            phase,
            server: None,
            engine_ref: String::new(),
            launched: None,
        };
        let (a, b) = (SessionId::random(), SessionId::random());
        let over = Phase::Ended {
            code: None,
            why: String::new(),
        };
        let all = vec![of(a, Phase::Starting), of(b, over)];
        let (news, known) = compare(BTreeMap::new(), all.clone());
        assert_eq!(news.len(), 2);
        let (news, known) = compare(known, all);
        assert_eq!(news, []);
        let (news, known) = compare(known, Vec::new());
        assert!(
            matches!(&news[..], [only] if only.session == a && matches!(only.phase, Phase::Lost { .. }))
        );
        assert_eq!(compare(known, Vec::new()).0, []);
    }
}
