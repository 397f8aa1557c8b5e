use super::*;

#[test]
fn the_worst_batch_is_the_one_with_the_least_mean() {
    let values = |parts: &[(f64, usize)]| -> Vec<f64> {
        let of = |(value, count): &(f64, usize)| vec![*value; *count];
        parts.iter().flat_map(of).collect()
    };
    let worst = |parts: &[(f64, usize)]| Spread::of(&values(parts)).unwrap().0[1];
    assert_eq!(worst(&[(40.0, 150), (30.0, 150), (35.0, 150)]), 30.0);
    // The last 20 frames are too few for a batch of their own, so the worst batch has 150 frames with the value 40
    // and 20 frames with the value 23.
    assert_eq!(worst(&[(40.0, 300), (23.0, 20)]), 38.0);
    assert_eq!(worst(&[(40.0, 20)]), 40.0);
    assert_eq!(Spread::of(&[]), None);
    let all: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(Spread::of(&all), Some(Spread([50.5, 50.5, 5.0, 95.0])));
}

fn at_rate(mbps: f64) -> Traffic {
    Traffic {
        mbps,
        ..Traffic::default()
    }
}

fn measured(content: &str, condition: Condition, psnr: f64) -> Measured {
    let point = Point {
        psnr: vec![psnr; 10],
        ssim: vec![0.9; 10],
        outcomes: [
            ("complete".to_owned(), 9),
            ("dropped before X: Y".to_owned(), 1),
        ]
        .into(),
        each_second: vec![[1.0, 2.0].map(at_rate); 3],
        ..Point::default()
    };
    Measured {
        content: content.to_owned(),
        condition,
        point,
    }
}

fn table() -> Table {
    let best = Condition::default();
    let narrow = |constant| Condition {
        mbps: Some(2),
        constant,
        ..best
    };
    let slow = Condition {
        delay_ms: 100,
        ..best
    };
    let wide = Condition {
        constant: true,
        ..best
    };
    let mut all = Vec::new();
    for (content, plus) in [("scene", 0.0), ("game", 1.0)] {
        for (condition, psnr) in [
            (best, 40.0),
            (slow, 39.0),
            (narrow(false), 35.0),
            (narrow(true), 25.0),
            (wide, 41.0),
        ] {
            all.push(measured(content, condition, psnr + plus));
        }
    }
    Table {
        missing: Vec::new(),
        conditions: Conditions {
            bitrate: "3M".into(),
            fps: 50,
            size: Size::new(640, 360),
            seconds: 2.0,
        },
        all,
    }
}

#[test]
fn the_result_file_names_the_missing_points() {
    let mut table = table();
    assert!(table.file(&[Vary::Loss], false).incomplete.is_empty());
    let lossy = Condition {
        loss_percent: 10,
        ..Condition::default()
    };
    table.miss("scene".into(), lossy, &anyhow::anyhow!("no picture"));
    let file = table.file(&[Vary::Loss], false);
    assert_eq!(file.incomplete, ["scene 10 % loss"]);
}

#[test]
fn the_result_file_names_the_unreliable_points() {
    let mut table = table();
    assert!(table.file(&[], false).unreliable.is_empty());
    let [first, second, ..] = &mut table.all[..] else {
        panic!("no points");
    };
    first.point.link_late = Some(LATE * 2);
    second.point.unseen = 90;
    let file = table.file(&[], false);
    let [late, unseen] = &file.unreliable[..] else {
        panic!("{:?}", file.unreliable);
    };
    assert!(late.starts_with("at scene perfect link, "), "{late}");
    assert!(unseen.ends_with("90 of 100 pictures"), "{unseen}");
}

#[test]
fn points_are_on_their_lines() {
    let figures = table().figures(&[Vary::Delay, Vary::Loss, Vary::Bandwidth]);
    let lines = |title: &str| -> Vec<(String, Vec<(f64, f64)>)> {
        let figure = figures.iter().find(|f| f.title.starts_with(title)).unwrap();
        let line = |series: &Series| {
            let points = series.points.iter().map(|p| (p.x, p.mean)).collect();
            (series.name.clone(), points)
        };
        figure.series.iter().map(line).collect()
    };
    let want = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
    assert_eq!(
        lines("PSNR against network delay"),
        [
            want("scene", &[(0.0, 40.0), (100.0, 39.0)]),
            want("game", &[(0.0, 41.0), (100.0, 40.0)])
        ]
    );
    assert!(
        lines("PSNR against packet loss").is_empty(),
        "one point is no line"
    );
    assert_eq!(
        lines("PSNR against bandwidth"),
        [
            want("scene, adaptive rate", &[(2.0, 35.0), (1001.0, 40.0)]),
            want("game, adaptive rate", &[(2.0, 36.0), (1001.0, 41.0)]),
            want("scene, constant rate", &[(2.0, 25.0), (1001.0, 41.0)]),
            want("game, constant rate", &[(2.0, 26.0), (1001.0, 42.0)]),
        ]
    );
    let load = figures
        .iter()
        .filter(|f| f.title.starts_with("Network load"));
    assert_eq!(load.clone().count(), 3);
    let rate = load.clone().next().unwrap();
    let seconds = Vec::from_iter(rate.series.iter().map(|s| &s.points[0].batch_means));
    assert_eq!(seconds, [&[2.0; 3], &[1.0; 3]], "downstream, then upstream");
    assert!(load.flat_map(|f| &f.series).all(|s| s.points.len() == 2));
}

#[test]
fn the_point_without_a_limit_is_beyond_the_largest_permitted() {
    for (vary, largest) in [(Vary::Bandwidth, 1000), (Vary::Gop, 100_000)] {
        assert!(vary.allows(Some(largest)) && !vary.allows(Some(largest + 1)));
        let conditions = vary.conditions(&[Some(largest), None], true);
        let places: Vec<_> = conditions
            .iter()
            .map(|of| vary.place(of).unwrap().1)
            .collect();
        assert!(places[0] < places[1], "{places:?}");
    }
}

#[test]
fn rows_have_a_value_for_each_name_and_lines_fit() {
    let table = table();
    let csv = table.csv();
    let fields = |line: &str| line.split(',').count();
    let mut lines = csv.lines();
    let names = lines.next().unwrap();
    assert_eq!(lines.clone().count(), 10);
    assert!(lines.all(|line| fields(line) == fields(names)), "{csv}");
    assert!(csv.contains("scene,100,0,none,none,adaptive,10,39.0000,"));
    assert!(
        table
            .all
            .iter()
            .all(|one| one.line().chars().count() <= 110)
    );
    assert_eq!(table.all[0].point.ended("dropped"), 1);
}
