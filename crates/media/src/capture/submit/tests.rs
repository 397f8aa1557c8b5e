//! Submitted pictures as seen by the host.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::capture::pool::{Pool, PooledPicture};

const SIZE: Size = Size::new(16, 8);
const FAST: f64 = 1000.0;

fn picture(pool: &Pool, value: u8) -> Box<PooledPicture> {
    let mut picture = pool.take(SIZE);
    picture.bytes().fill(value);
    Box::new(picture)
}

fn shown(capture: &Submitted) -> u8 {
    capture.picture().expect("a picture").planes[0].data[0]
}

fn free(pool: &Pool) -> usize {
    pool.spares()
}

#[test]
fn the_newest_picture_wins_and_buffers_go_round() {
    let (app, mut host) = channel(SIZE, FAST).unwrap();
    let pool = Pool::default();
    let submit = |value| {
        app.submit(picture(&pool, value), RenderInfo::default())
            .unwrap()
    };
    let zero = Some(Duration::ZERO);
    assert_eq!(host.next(zero).unwrap(), CaptureEvent::TimedOut);
    assert!(host.picture().is_none());
    submit(1);
    submit(2);
    assert_eq!(free(&pool), 1, "the first was replaced");
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 2);
    submit(3);
    assert_eq!(shown(&host), 2, "until the next is asked for");
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 3);
    assert_eq!(free(&pool), 1, "two are in use at most");
}

#[test]
fn a_picture_may_be_resized_and_has_render_info() {
    let (app, mut host) = channel(SIZE, FAST).unwrap();
    assert_eq!(host.size(), SIZE);
    let other = Size::new(24, 10);
    let drawn = RenderInfo {
        begun: Some(Instant(7)),
        ..RenderInfo::default()
    };
    app.submit(Box::new(Pool::default().take(other)), drawn)
        .unwrap();
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!((host.size(), host.render_info()), (other, drawn));
    assert_eq!(host.picture().unwrap().size, other);
}

#[test]
fn waiting_ends_when_the_host_requests_the_next() {
    let (app, mut host) = channel(SIZE, FAST).unwrap();
    let pool = Pool::default();
    let ticket = app
        .submit(picture(&pool, 1), RenderInfo::default())
        .unwrap();
    assert!(!app.wait(ticket, Duration::ZERO), "not taken yet");
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert!(!app.wait(ticket, Duration::ZERO), "it is being encoded");
    let thread = std::thread::spawn(move || {
        let done = app.wait(ticket, Duration::from_secs(60));
        (done, app)
    });
    assert_eq!(
        host.next(Some(Duration::ZERO)).unwrap(),
        CaptureEvent::TimedOut
    );
    let (done, app) = thread.join().unwrap();
    assert!(done);
    host.waker().wake();
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Woken);
    drop(app);
    assert!(matches!(host.next(None).unwrap(), CaptureEvent::Ended(_)));
}

#[test]
fn a_static_picture_is_requested_once() {
    let (app, mut host) = channel(SIZE, 60.0).unwrap();
    let pool = Pool::default();
    let at = |ms: i64| Instant(ms * 1_000_000);
    let comer = Waker::new().unwrap();
    app.wake_when_watched(comer.clone());
    assert!(app.wants(at(0)));
    let _ = app.submit(picture(&pool, 1), RenderInfo::default());
    assert!(!app.wants(at(20)), "no viewer");
    assert_eq!(app.missing_still(at(5000)), None, "no viewer");
    host.set_watched(true);
    assert!(comer.lower());
    assert_eq!(app.missing_still(at(40)), None, "it may go on drawing");
    let still = app.missing_still(at(5000)).expect("the second picture");
    app.submit_still(still, picture(&pool, 2));
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 2);
    assert_eq!(app.missing_still(at(6000)), None, "it was handed over");
    // Submits pictures until a picture is refused because it comes too soon after the others.
    assert!(app.wants(at(6000)));
    let _ = app.submit(picture(&pool, 3), RenderInfo::default());
    while app.wants(at(6001)) {
        let _ = app.submit(picture(&pool, 4), RenderInfo::default());
    }
    let still = app.missing_still(at(6200)).expect("the refused one");
    // The application draws again before the old picture is submitted.
    assert!(app.wants(at(6200)));
    let _ = app.submit(picture(&pool, 5), RenderInfo::default());
    app.submit_still(still, picture(&pool, 6));
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 5, "the older one is dropped");
}

#[test]
fn an_application_without_pictures_is_at_rest() {
    let (app, mut host) = channel(SIZE, 60.0).unwrap();
    assert_eq!(app.missing_still(Instant(0)), None, "no viewer");
    host.set_watched(true);
    assert!(app.missing_still(Instant(0)).is_some());
}

#[test]
fn a_closed_host_releases_the_application() {
    let (app, host) = channel(SIZE, FAST).unwrap();
    let pool = Pool::default();
    let ticket = app
        .submit(picture(&pool, 1), RenderInfo::default())
        .unwrap();
    assert!(!app.is_over());
    drop(host);
    assert!(app.is_over());
    assert_eq!(free(&pool), 1, "it is no longer needed");
    assert!(!app.wait(ticket, Duration::from_secs(60)));
    assert_eq!(app.demand(Instant(0)), FrameDemand::Closed);
    assert!(
        app.submit(picture(&pool, 2), RenderInfo::default())
            .is_none(),
        "the host is gone"
    );
}

#[test]
fn demand_follows_the_viewers_frame_rate() {
    let (app, mut host) = channel(SIZE, 60.0).unwrap();
    let at = |ms: i64| Instant(ms * 1_000_000);
    let wanted = |from, to| (from..to).filter(|ms| app.wants(at(*ms))).count();
    assert_eq!(wanted(0, 3000), 3, "no viewer");
    assert_eq!(app.demand(at(2999)), FrameDemand::Unwatched);
    host.set_watched(true);
    // The limits include the tolerance of 5 % and one saved token.
    assert!((188..=191).contains(&wanted(3000, 6000)));
    assert_eq!(app.demand(at(6000)), FrameDemand::TooSoon);
}

#[test]
fn overlaid_pictures_replace_submitted_ones() {
    let (app, mut host) = channel(SIZE, 60.0).unwrap();
    let pool = Pool::default();
    let at = |ms: i64| Instant(ms * 1_000_000);
    let zero = Some(Duration::ZERO);
    host.set_watched(true);
    assert_eq!(app.wants_still(at(0)), None, "no window covers them");
    app.overlaid(at(0), true);
    assert!(!app.wants(at(0)));
    // This picture was pending when the covering window appeared.
    let _ = app.submit(picture(&pool, 1), RenderInfo::default());
    assert_eq!(host.next(zero).unwrap(), CaptureEvent::TimedOut);
    let still = app.wants_still(at(1)).expect("the first");
    // The application continues to draw.
    app.missed(at(2));
    assert!(!app.wants(at(2)));
    app.submit_still(still, picture(&pool, 2));
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 2);
    assert_eq!(app.missing_still(at(1000)), None, "it was handed over");
    let stills = (1000..4000).filter(|ms| app.wants_still(at(*ms)).is_some());
    assert!((188..=192).contains(&stills.count()));
    // From here on, the application's current picture is unknown.
    app.overlaid(at(4000), false);
    assert_eq!(app.wants_still(at(4100)), None);
    let rest = app.missing_still(at(4100)).expect("the current picture");
    app.submit_still(rest, picture(&pool, 3));
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 3);
    assert!(app.wants(at(4200)));
}

#[test]
fn an_overlaid_picture_can_be_replaced_by_its_copy() {
    let (app, mut host) = channel(SIZE, FAST).unwrap();
    let pool = Pool::default();
    let at = |ms: i64| Instant(ms * 1_000_000);
    app.submit(picture(&pool, 1), RenderInfo::default())
        .unwrap();
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    app.overlaid(at(0), true);
    app.replace(at(1), picture(&pool, 2));
    assert_eq!(host.next(None).unwrap(), CaptureEvent::Frame);
    assert_eq!(shown(&host), 2);
    assert_eq!(free(&pool), 1, "the original is released");
    host.set_watched(true);
    assert!(
        app.missing_still(at(1000)).is_some(),
        "the windows are missing"
    );
}

/// A picture that checks, when it is dropped, that the source's lock is free.
struct Watchful(Arc<Shared>, Arc<AtomicUsize>);

impl Frame for Watchful {
    fn picture(&self) -> Picture<'_> {
        Picture::bgrx(Size::new(1, 1), &[0; 4], 4)
    }
}

impl Drop for Watchful {
    fn drop(&mut self) {
        let free = self.0.state.try_lock().is_ok();
        self.1.fetch_add(usize::from(free), Ordering::Relaxed);
    }
}

#[test]
fn replaced_pictures_are_dropped_without_the_lock() {
    let (app, mut host) = channel(SIZE, FAST).unwrap();
    host.set_watched(true);
    let dropped: Arc<AtomicUsize> = Arc::default();
    let picture = || Box::new(Watchful(app.shared.clone(), Arc::clone(&dropped)));
    let count = || dropped.load(Ordering::Relaxed);
    app.submit(picture(), RenderInfo::default()).unwrap();
    app.submit(picture(), RenderInfo::default()).unwrap();
    assert_eq!(count(), 1);
    app.missed(Instant(0));
    let still = app.missing_still(Instant(1_000_000_000)).expect("at rest");
    app.submit_still(still, picture());
    assert_eq!(count(), 2, "replaced by a still picture");
    app.submit_still(still, picture());
    assert_eq!(count(), 3, "the request is outdated");
    drop(host);
    assert_eq!(count(), 4);
}
