//! Latencies on logarithmic axes: how many are longer, and when they were.

use anyhow::Result;
use plotters::backend::DrawingBackend;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange as _;
use plotters::drawing::DrawingArea;
use plotters::element::{PathElement, Rectangle};
use plotters::series::LineSeries;
use plotters::style::{Color, IntoFont as _, WHITE};

use super::{BETTER, FONT, GRID, INK, Plot, SERIES, WORSE, failed};

/// The share of samples that are longer, by latency: one line for each case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tails {
    pub(crate) title: String,
    /// Name, and (latency in ns, share).
    pub(crate) series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot for Tails {
    fn size(&self) -> (u32, u32) {
        (720, 440)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let (low, high) = span(points().map(|point| point.0));
        let (least, _) = span(points().map(|point| point.1).filter(|share| *share > 0.0));
        let font = |size: i32| (FONT, size).into_font();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, font(19))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((low..high).log_scale(), (least.min(0.1)..1.0).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("latency")
            .y_desc("share of the samples that take longer")
            .x_labels(9)
            .y_labels(9)
            .x_label_formatter(&|nanos| time(*nanos))
            .y_label_formatter(&|share| percent(*share))
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .label_style(font(13))
            .axis_desc_style(font(14))
            .draw()
            .map_err(failed)?;
        for (index, (name, points)) in self.series.iter().enumerate() {
            let colour = SERIES[index % SERIES.len()];
            chart
                .draw_series(LineSeries::new(
                    points.iter().copied(),
                    colour.stroke_width(2),
                ))
                .map_err(failed)?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(font(13))
            .draw()
            .map_err(failed)
    }
}

/// Outliers over the time of a test, with the pauses of a collector behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outliers {
    pub(crate) title: String,
    /// Share of the test, latency in ns.
    pub(crate) dots: Vec<(f64, f64)>,
    /// From and to as shares of the test, and whether everything stood still for a full collection.
    pub(crate) pauses: Vec<(f64, f64, bool)>,
}

impl Plot for Outliers {
    fn size(&self) -> (u32, u32) {
        (720, 360)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let (low, high) = span(self.dots.iter().map(|dot| dot.1));
        let font = |size: i32| (FONT, size).into_font();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, font(19))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..1.0, (low..high).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("time of the test: 0 it begins, 1 it ends")
            .y_desc("latency of outliers")
            .y_labels(9)
            .y_label_formatter(&|nanos| time(*nanos))
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .label_style(font(13))
            .axis_desc_style(font(14))
            .draw()
            .map_err(failed)?;
        let bars = self.pauses.iter().map(|&(from, to, full)| {
            let colour = if full { WORSE } else { BETTER };
            // As wide as can be seen.
            let to = to.max(from + 1.0 / 700.0);
            Rectangle::new(
                [(from, low), (to.min(1.0), high)],
                colour.mix(0.35).filled(),
            )
        });
        chart.draw_series(bars).map_err(failed)?;
        let half = (0.002, 1.035);
        let dots = self.dots.iter().map(|&(at, latency)| {
            let corners = [
                (at - half.0, latency / half.1),
                (at + half.0, latency * half.1),
            ];
            Rectangle::new(corners, INK.filled())
        });
        chart.draw_series(dots).map_err(failed)?;
        Ok(())
    }
}

/// From the power of ten below all values to that above.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return (1.0, 10.0);
    }
    let power = |value: f64| 10_f64.powf(value);
    let low = power(low.max(1e-12).log10().floor());
    (low, power(high.log10().ceil()).max(low * 10.0))
}

/// "350 ns", "1 µs", "20 ms", "1 s".
fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        1e9.. => (nanos / 1e9, "s"),
        1e6.. => (nanos / 1e6, "ms"),
        1e3.. => (nanos / 1e3, "µs"),
        _ => (nanos, "ns"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// "10 %", "0.001 %".
fn percent(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::super::svg;
    use super::*;

    #[test]
    fn tails_are_drawn_on_logarithmic_axes() {
        let tails = Tails {
            title: "tails".into(),
            series: vec![("one".into(), vec![(1e3, 1.0), (1e4, 0.01), (2e7, 1e-6)])],
        };
        let drawn = svg(&tails).unwrap();
        for word in ["1 µs", "10 ms", "100 %", "0.001 %", "one"] {
            assert!(drawn.contains(word), "{word}: {drawn}");
        }
        assert!(svg(&Tails::default()).unwrap().contains("</svg>"));
    }

    #[test]
    fn outliers_have_pauses_behind_them() {
        let plot = Outliers {
            title: "outliers".into(),
            dots: vec![(0.1, 5e5), (0.9, 3e7)],
            pauses: vec![(0.2, 0.3, false), (0.5, 0.5, true)],
        };
        let drawn = svg(&plot).unwrap();
        for word in ["100 µs", "1 ms", "100 ms", "#009E73", "#D55E00"] {
            assert!(drawn.contains(word), "{word}: {drawn}");
        }
        assert!(svg(&Outliers::default()).unwrap().contains("</svg>"));
    }
}
