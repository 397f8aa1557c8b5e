use super::*;

/// Reads a trace and checks it against the rules of the format and of Perfetto:
///
/// From the document *Trace Event Format* (Google):
/// 1. "JSON Array Format": an array of event objects; the closing bracket is optional.
/// 2. "Event Descriptions": each event has name, ph, ts (microseconds), pid and tid; `args` is an object; an event may
///    be of a category `cat`.
/// 3. "Complete Events" (X): `dur` in microseconds, not negative.
/// 4. "Counter Events" (C): the values of `args` are numbers.
/// 5. "Instant Events" (i): the scope `s` is g, p or t.
/// 6. "Flow Events" (s, t, f): `id`; one s, then t, then one f, in the order of time; they
///    bind to the slice on their track at their time (`bp` "e" for f).
/// 7. "Metadata Events" (M): process_name and thread_name carry `args.name`.
///
/// From Perfetto's FAQ ("Why are overlapping events in JSON traces not displayed correctly?"):
/// 8. slices of one track may only nest; here they do not overlap at all, and come in the order of time.
///
/// From Perfetto's model of threads (trace processor, tables `thread` and `process`):
/// 9. a tid belongs to one pid; pid and tid are not 0, which is the idle process.
fn check(text: &str) -> Vec<Value> {
    let is_closed = text.trim_end().ends_with(']');
    let text = if is_closed {
        text.to_owned()
    } else {
        format!("{text}]")
    };
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut owner: HashMap<u64, u64> = HashMap::new();
    let mut free: HashMap<u64, f64> = HashMap::new();
    let mut slices: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let mut counters: HashMap<String, f64> = HashMap::new();
    let mut flows: HashMap<String, Vec<(String, f64, u64)>> = HashMap::new();
    let mut named = Vec::new();
    for e in &events {
        let name = e["name"].as_str().unwrap();
        let ts = e["ts"].as_f64().unwrap();
        let (pid, tid) = (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
        assert!(pid > 0 && tid > 0, "{e}");
        assert_eq!(*owner.entry(tid).or_insert(pid), pid, "{e}");
        assert!(e.get("args").is_none_or(Value::is_object), "{e}");
        match e["ph"].as_str().unwrap() {
            "X" => {
                let dur = e["dur"].as_f64().unwrap();
                assert!(dur >= 0.0, "{e}");
                let free = free.entry(tid).or_insert(f64::MIN);
                // The tolerance is half a nanosecond, for rounding.
                assert!(ts >= *free - 0.0005, "{e} begins before {free}");
                *free = ts + dur;
                slices.entry(tid).or_default().push((ts, ts + dur));
                assert!(named.contains(&tid), "track without a name: {e}");
            }
            "C" => {
                assert!(
                    e["args"]
                        .as_object()
                        .unwrap()
                        .values()
                        .all(Value::is_number)
                );
                let before = counters.insert(format!("{pid} {name}"), ts);
                assert!(before.is_none_or(|before| before <= ts), "{e}");
            }
            "i" => assert!(["g", "p", "t"].contains(&e["s"].as_str().unwrap()), "{e}"),
            ph @ ("s" | "t" | "f") => {
                assert!(ph != "f" || e["bp"] == "e", "{e}");
                let id = e["id"].as_str().unwrap().to_owned();
                flows.entry(id).or_default().push((ph.to_owned(), ts, tid));
            }
            "M" => {
                assert!(["process_name", "thread_name"].contains(&name), "{e}");
                assert!(e["args"]["name"].is_string(), "{e}");
                named.push(tid);
            }
            other => panic!("{other} in {e}"),
        }
    }
    for (id, flow) in &flows {
        let phs: String = flow.iter().map(|(ph, ..)| ph.as_str()).collect();
        assert!(phs.len() >= 2, "{id}: {phs}");
        assert_eq!(phs, format!("s{}f", "t".repeat(phs.len() - 2)), "{id}");
        assert!(flow.is_sorted_by_key(|(_, ts, _)| *ts), "{id}: {flow:?}");
        for (ph, ts, tid) in flow {
            let inside = slices[tid].iter().any(|(from, to)| from <= ts && ts < to);
            assert!(inside, "{id}: {ph} at {ts} is outside its slice");
        }
    }
    events
}

fn trace(records: &[FrameRecord], name: &str) -> Vec<Value> {
    let buffer = SharedBuffer::default();
    let mut trace = Trace::new(Box::new(buffer.clone())).unwrap();
    for record in records {
        trace.frame(record, name, Some(RenditionId(1))).unwrap();
    }
    trace.finish().unwrap();
    assert!(buffer.text().ends_with("]\n"));
    check(&buffer.text())
}

fn of<'a>(events: &'a [Value], ph: &str, cat: &str) -> Vec<&'a Value> {
    let matching = |e: &&Value| e["ph"] == ph && (cat.is_empty() || e["cat"] == cat);
    events.iter().filter(matching).collect()
}

#[test]
fn a_frame_has_a_slice_for_each_span_on_both_sides() {
    let events = trace(&[complete_frame(1, 1)], "desk");
    let spans = [
        ("Captured→Converted", 1, 1016666.667, 1000.0),
        ("Converted→Encoded", 1, 1017666.667, 3000.0),
        ("FirstSent→LastSent", 1, 1019666.667, 2000.0),
        ("FirstSent→FirstReceived", 1, 1019666.667, 7000.0),
        ("FirstReceived→Recoverable", 2, 1026666.667, 1000.0),
        ("Recoverable→Decoded", 2, 1027666.667, 1000.0),
        ("Decoded→Submitted", 2, 1028666.667, 1000.0),
    ];
    for (cat, pid, ts, dur) in spans {
        let slices = of(&events, "X", cat);
        let [slice] = slices[..] else {
            panic!("{cat}: {slices:?}")
        };
        assert_eq!(slice["pid"], pid, "{cat}");
        assert_eq!(
            (slice["ts"].as_f64(), slice["dur"].as_f64()),
            (Some(ts), Some(dur)),
            "{cat}"
        );
        assert_eq!(slice["args"]["frame"], 1);
        let bound = &slice["args"]["clock_bound_us"];
        let crosses = pid == 2 || cat.ends_with("FirstReceived");
        assert_eq!(
            bound.as_f64(),
            crosses.then_some(30.0),
            "{cat}: the bound is present"
        );
    }
    assert_eq!(of(&events, "X", "").len(), spans.len());
    // An arrow leads from the first slice at the host to the last slice at the client.
    assert_eq!(of(&events, "s", "")[0]["pid"], 1);
    assert_eq!(of(&events, "f", "")[0]["pid"], 2);
    let names: Vec<&str> = of(&events, "M", "")
        .iter()
        .map(|e| e["args"]["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"host") && names.contains(&"client desk (session 1, rendition 1)"),
        "{names:?}"
    );
}

#[test]
fn frames_that_overlap_on_the_link_take_lanes() {
    // Each frame is about 100 ms on the link at 60 frames/s, so about six frames overlap.
    let records: Vec<FrameRecord> = (1..=30)
        .map(|n| {
            let mut record = complete_frame(1, n);
            let here = record.client.first_received_here.as_mut().unwrap();
            here.at = here.at + Duration::from_millis(90);
            record
        })
        .collect();
    let events = trace(&records, "desk");
    let link = of(&events, "X", "FirstSent→FirstReceived");
    assert_eq!(link.len(), 30);
    let lanes: std::collections::HashSet<u64> =
        link.iter().map(|e| e["tid"].as_u64().unwrap()).collect();
    assert_eq!(lanes.len(), 6);
    // If frames take much longer on the link, there are too few lanes. Some frames are then omitted, but none overlap.
    let late: Vec<FrameRecord> = (1..=30)
        .map(|n| {
            let mut record = complete_frame(1, n);
            let here = record.client.first_received_here.as_mut().unwrap();
            here.at = here.at + Duration::from_millis(300);
            record
        })
        .collect();
    assert!(of(&trace(&late, "desk"), "X", "FirstSent→FirstReceived").len() < 30);
}

#[test]
fn two_subscribers_share_the_hosts_slices() {
    let records: Vec<FrameRecord> = (1..=5)
        .flat_map(|n| [complete_frame(1, n), complete_frame(2, n)])
        .collect();
    let events = trace(&records, "desk");
    assert_eq!(of(&events, "X", "Converted→Encoded").len(), 5);
    assert_eq!(of(&events, "X", "FirstSent→LastSent").len(), 10);
    assert_eq!(of(&events, "X", "Decoded→Submitted").len(), 10);
}

#[test]
fn subscribers_with_one_name_have_counters_of_their_own() {
    let records: Vec<FrameRecord> = (1..=61)
        .flat_map(|n| [complete_frame(1, n), complete_frame(2, n)])
        .collect();
    let events = trace(&records, "desk");
    for unit in ["qp", "Mb/s"] {
        let counters = of(&events, "C", "");
        let counters = counters.iter().filter(|e| e["args"][unit].is_number());
        let processes: std::collections::HashSet<u64> =
            counters.map(|e| e["pid"].as_u64().unwrap()).collect();
        assert_eq!(processes.len(), 2, "{unit}: {processes:?}");
    }
}

#[test]
fn drops_are_instants_with_their_cause() {
    let drops = [
        dropped(1, 1, Stage::Converted, DropCause::Superseded),
        dropped(1, 2, Stage::FirstReceived, DropCause::Lost),
    ];
    let events = trace(&drops, "desk");
    let instants = of(&events, "i", "dropped");
    let told: Vec<_> = instants
        .iter()
        .map(|e| {
            (
                e["name"].as_str().unwrap(),
                e["args"]["before"].as_str().unwrap(),
            )
        })
        .collect();
    let want = [
        ("dropped: Superseded", "Converted"),
        ("dropped: Lost", "FirstReceived"),
    ];
    assert_eq!(told, want);
}

/// Checks the counted bitrates: 20 000 bytes, 60 times a second, are 9.6 Mb/s.
fn check_rates(counters: &[&Value]) {
    let rates: Vec<f64> = counters
        .iter()
        .filter_map(|e| e["args"]["Mb/s"].as_f64())
        .collect();
    assert!(rates.len() >= 3, "{rates:?}");
    assert!(
        rates.iter().all(|rate| (rate - 9.6).abs() < 0.01),
        "{rates:?}"
    );
}

#[test]
fn the_bit_rate_includes_late_records() {
    let mut records: Vec<FrameRecord> = (1..=122).map(|n| complete_frame(1, n)).collect();
    for pair in records.chunks_exact_mut(2) {
        pair.swap(0, 1);
    }
    let events = trace(&records, "desk");
    check_rates(&of(&events, "C", ""));
}

#[test]
fn bit_rate_and_quantiser_are_counted() {
    let records: Vec<FrameRecord> = (1..=121).map(|n| complete_frame(1, n)).collect();
    let events = trace(&records, "desk");
    let counters = of(&events, "C", "");
    check_rates(&counters);
    let qps = counters.iter().filter(|e| e["args"]["qp"].is_number());
    assert_eq!(qps.count(), 1, "only when it changes");
}

#[test]
fn the_trace_of_a_killed_program_is_valid() {
    let buffer = SharedBuffer::default();
    let mut trace = Trace::new(Box::new(buffer.clone())).unwrap();
    assert_eq!(check(&buffer.text()).len(), 1);
    for n in 1..=300 {
        trace
            .frame(&complete_frame(1, n), "a \"b\"\\\u{7}\n", None)
            .unwrap();
        trace.tick(Instant(i64::from(n) * 16_666_667)).unwrap();
        if n % 50 == 0 {
            check(&buffer.text());
        }
    }
    drop(trace);
    assert!(!buffer.text().trim_end().ends_with(']'));
    assert!(of(&check(&buffer.text()), "X", "Recoverable→Decoded").len() > 200);
}

#[test]
fn hostile_stamps_do_not_corrupt_the_trace() {
    let mut backwards = complete_frame(1, 1);
    backwards.host = Stamps::default();
    backwards.host.stamp(Stage::Captured, ms(50));
    backwards.host.stamp(Stage::Converted, ms(40));
    backwards.host.stamp(Stage::FirstSent, ms(60));
    backwards.host.stamp(Stage::LastSent, ms(60));
    let here = backwards.client.first_received_here.as_mut().unwrap();
    here.at = ms(20);
    let mut far = complete_frame(1, 2);
    far.client.submitted = Some(Duration::MAX);
    far.client.first_received_here.as_mut().unwrap().at = Instant(i64::MAX);
    let mut none = dropped(1, 3, Stage::Captured, DropCause::CongestionSkipped);
    none.host = Stamps::default();
    trace(&[backwards, far, none, complete_frame(1, 4)], "desk");
}

#[test]
fn frames_of_two_renditions_have_tracks_of_their_own() {
    let buffer = SharedBuffer::default();
    let mut trace = Trace::new(Box::new(buffer.clone())).unwrap();
    for n in 1..4 {
        for session in [1, 2] {
            let rendition = Some(RenditionId(session));
            trace
                .frame(&complete_frame(session, n), "desk", rendition)
                .unwrap();
        }
    }
    trace.finish().unwrap();
    let events = check(&buffer.text());
    let encodes = |event: &&Value| event["cat"] == "Converted→Encoded";
    let tracks: Vec<&Value> = events.iter().filter(encodes).map(|e| &e["tid"]).collect();
    assert_eq!(tracks.len(), 6, "each frame of each is drawn");
    let first = tracks.iter().filter(|track| *track == &tracks[0]).count();
    assert_eq!(first, 3, "{tracks:?}");
    assert!(buffer.text().contains("of rendition 2"));
}
