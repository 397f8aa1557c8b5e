//! Plots: a value goes in, SVG or PNG comes out, with the same drawing for both. It measures
//! nothing and knows nothing of benches.
//!
//! The font is part of the program (`assets/`): a machine that measures may have none.

mod boxes;
mod tails;

use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, TextStyle, WHITE, register_font};

pub(crate) use self::boxes::{Boxes, Spread};
pub(crate) use self::tails::{Outliers, Tails};

/// Something that can be drawn.
pub(crate) trait Plot {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it on an area of that size.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()>;
}

/// The plot as SVG text.
pub(crate) fn svg(plot: &impl Plot) -> Result<String> {
    load_font()?;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, plot.size()).into_drawing_area();
        plot.draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

/// The plot as a PNG file.
pub(crate) fn png(plot: &impl Plot) -> Result<Vec<u8>> {
    load_font()?;
    let (width, height) = plot.size();
    let mut pixels = vec![255; width as usize * height as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        plot.draw(&area)?;
        area.present().map_err(failed)?;
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(file)
}

const FONT: &str = "sans-serif";

fn load_font() -> Result<()> {
    static LOADED: OnceLock<bool> = OnceLock::new();
    let bytes = include_bytes!("../../assets/roboto.ttf");
    let loaded = LOADED.get_or_init(|| register_font(FONT, FontStyle::Normal, bytes).is_ok());
    loaded
        .then_some(())
        .ok_or_else(|| anyhow!("the font of the plots is broken"))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("a plot can't be drawn: {error}")
}

// Colours that people with any kind of colour vision can tell apart (Okabe and Ito 2008).
const SERIES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
const BETTER: RGBColor = SERIES[2];
const WORSE: RGBColor = SERIES[1];
const TOTAL: RGBColor = SERIES[0];
const INK: RGBColor = RGBColor(30, 30, 30);
const FAINT: RGBColor = RGBColor(120, 120, 120);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// "1 run", "5 runs".
pub(crate) fn runs(count: f64) -> String {
    format!("{count} run{}", if count == 1.0 { "" } else { "s" })
}

/// A value that falls (or rises) step by step.
#[derive(Clone, Debug)]
pub(crate) struct Waterfall {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) unit: String,
    /// What no step can go below.
    pub(crate) floor: Option<f64>,
    pub(crate) steps: Vec<Step>,
}

/// The value after a step; the first is where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) value: f64,
    /// Its range over repetitions.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Waterfall {
    const LEFT: i32 = 250;
    const RIGHT: i32 = 830;
    const TOP: i32 = 90;
    const ROW: i32 = 40;
}

impl Plot for Waterfall {
    fn size(&self) -> (u32, u32) {
        let rows = u32::try_from(self.steps.len() + 1).unwrap_or(1);
        (960, Self::TOP as u32 + rows * Self::ROW as u32 + 50)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let highest = self.steps.iter().map(|s| s.high.max(s.value));
        let highest = highest.fold(0.0, f64::max).max(1e-6);
        let (ticks, top) = ticks(highest);
        let width = f64::from(Self::RIGHT - Self::LEFT);
        let x = |value: f64| Self::LEFT + (value / top * width).round() as i32;
        let pen = Pen(area);
        pen.text((20, 26), 22, INK, HPos::Left, &self.title)?;
        pen.text((20, 54), 14, FAINT, HPos::Left, &self.subtitle)?;
        let rows = i32::try_from(self.steps.len() + 1).unwrap_or(i32::MAX);
        let bottom = Self::TOP + rows * Self::ROW;
        for tick in &ticks {
            pen.line((x(*tick), Self::TOP - 6), (x(*tick), bottom), GRID)?;
            pen.text(
                (x(*tick), bottom + 14),
                13,
                FAINT,
                HPos::Center,
                &format!("{tick}"),
            )?;
        }
        pen.text(
            (x(top) + 30, bottom + 14),
            13,
            FAINT,
            HPos::Left,
            &self.unit,
        )?;
        if let Some(floor) = self.floor {
            let corners = [(x(0.0), Self::TOP - 6), (x(floor), bottom)];
            area.draw(&Rectangle::new(corners, FAINT.mix(0.25).filled()))
                .map_err(failed)?;
            let words = format!("floor {floor:.1}");
            pen.text((x(0.0) + 2, bottom + 34), 13, FAINT, HPos::Left, &words)?;
        }
        let mut before: Option<f64> = None;
        for (row, step) in (0..).zip(&self.steps) {
            let y = Self::TOP + row * Self::ROW;
            let middle = y + Self::ROW / 2 - 4;
            pen.text(
                (Self::LEFT - 12, middle - 7),
                14,
                INK,
                HPos::Right,
                &step.name,
            )?;
            // The first note lists everything, and would not fit.
            if before.is_some() {
                pen.text(
                    (Self::LEFT - 12, middle + 9),
                    12,
                    FAINT,
                    HPos::Right,
                    &step.note,
                )?;
            }
            let (from, colour) = match before {
                None => (0.0, TOTAL),
                Some(last) if step.value <= last => (last, BETTER),
                Some(last) => (last, WORSE),
            };
            pen.bar(
                (x(from), y + 4),
                (x(step.value), y + Self::ROW - 10),
                colour,
            )?;
            pen.line((x(step.low), middle), (x(step.high), middle), INK)?;
            for end in [step.low, step.high] {
                pen.line((x(end), middle - 4), (x(end), middle + 4), INK)?;
            }
            if let Some(last) = before {
                // From the row above to this one.
                pen.line((x(last), y - 10), (x(last), y + 4), FAINT)?;
            }
            let words = match before {
                None => format!("{:.2}", step.value),
                Some(last) => format!("{:.2}  ({:+.2})", step.value, step.value - last),
            };
            let right = x(step.high.max(from).max(step.value)) + 8;
            pen.text((right, middle), 14, INK, HPos::Left, &words)?;
            before = Some(step.value);
        }
        if let Some(last) = before {
            let y = Self::TOP + (rows - 1) * Self::ROW;
            pen.text((Self::LEFT - 12, y + 16), 14, INK, HPos::Right, "ours")?;
            pen.bar((x(0.0), y + 4), (x(last), y + Self::ROW - 10), TOTAL)?;
            pen.text(
                (x(last) + 8, y + 16),
                14,
                INK,
                HPos::Left,
                &format!("{last:.2}"),
            )?;
        }
        Ok(())
    }
}

/// Parts of a whole, one bar for each whole.
#[derive(Clone, Debug)]
pub(crate) struct Stacked {
    pub(crate) title: String,
    pub(crate) unit: String,
    /// Name of the bar, and its parts from left to right.
    pub(crate) bars: Vec<(String, Vec<(String, f64)>)>,
}

impl Plot for Stacked {
    fn size(&self) -> (u32, u32) {
        let most = self.bars.iter().map(|bar| bar.1.len()).max().unwrap_or(0);
        let bars = self.bars.len() as u32;
        (960, 60 + bars * (50 + 22 * most.div_ceil(3) as u32) + 40)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let total = |bar: &(String, Vec<(String, f64)>)| bar.1.iter().map(|p| p.1.max(0.0)).sum();
        let longest: f64 = self.bars.iter().map(total).fold(1e-6, f64::max);
        let (ticks, top) = ticks(longest);
        let x = |value: f64| 150 + (value / top * 760.0).round() as i32;
        let pen = Pen(area);
        pen.text((20, 26), 20, INK, HPos::Left, &self.title)?;
        let height = self.size().1 as i32;
        for tick in &ticks {
            pen.line((x(*tick), 46), (x(*tick), height - 34), GRID)?;
            let words = format!("{tick} {}", self.unit);
            pen.text((x(*tick), height - 20), 13, FAINT, HPos::Center, &words)?;
        }
        let mut y = 56;
        for bar in &self.bars {
            pen.text((138, y + 14), 14, INK, HPos::Right, &bar.0)?;
            let mut at = 0.0;
            for (index, (name, value)) in bar.1.iter().enumerate() {
                let colour = SERIES[index % SERIES.len()];
                pen.bar((x(at), y), (x(at + value.max(0.0)), y + 28), colour)?;
                at += value.max(0.0);
                let (column, row) = ((index % 3) as i32, (index / 3) as i32);
                let (left, line) = (150 + column * 255, y + 42 + row * 22);
                pen.bar((left, line - 6), (left + 12, line + 6), colour)?;
                let words = format!("{name} {value:.2}");
                pen.text((left + 18, line), 13, INK, HPos::Left, &words)?;
            }
            let words = format!("{at:.2}");
            pen.text((x(at) + 6, y + 14), 14, INK, HPos::Left, &words)?;
            y += 50 + 22 * i32::try_from(bar.1.len().div_ceil(3)).unwrap_or(0);
        }
        Ok(())
    }
}

/// Lines over a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    /// What stands at 0, 1, … where the axis has names instead of numbers.
    pub(crate) names: Vec<String>,
    pub(crate) series: Vec<Series>,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// One place of a line, with its range where there is one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) range: Option<(f64, f64)>,
}

impl Plot for Lines {
    fn size(&self) -> (u32, u32) {
        (720, 420)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let points = || self.series.iter().flat_map(|s| &s.points);
        let span = |values: &mut dyn Iterator<Item = f64>| {
            let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
                (a.min(v), b.max(v))
            });
            let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
            let room = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
            (low - room, high + room)
        };
        let (left, right) = span(&mut points().map(|p| p.x));
        let ends = |p: &Point| {
            let (low, high) = p.range.unwrap_or((p.y, p.y));
            [p.y, low, high]
        };
        let (bottom, top) = span(&mut points().flat_map(ends));
        let font = |size: i32| (FONT, size).into_font();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, font(19))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(left..right, bottom..top)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_labels(if self.names.is_empty() {
                10
            } else {
                self.names.len()
            })
            .x_label_formatter(&|x| {
                let place = x.round();
                let name = ((x - place).abs() < 1e-6 && place >= 0.0)
                    .then(|| self.names.get(place as usize).cloned());
                match name {
                    _ if self.names.is_empty() => format!("{}", (x * 1e6).round() / 1e6),
                    Some(Some(name)) => name,
                    _ => String::new(),
                }
            })
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .label_style(font(13))
            .axis_desc_style(font(14))
            .draw()
            .map_err(failed)?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = SERIES[index % SERIES.len()];
            let line = LineSeries::new(
                series.points.iter().map(|p| (p.x, p.y)),
                colour.stroke_width(2),
            );
            chart
                .draw_series(line)
                .map_err(failed)?
                .label(&series.name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
                });
            let dots = series
                .points
                .iter()
                .map(|p| Circle::new((p.x, p.y), 3, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
            let ranges = series.points.iter().filter_map(|p| {
                let (low, high) = p.range?;
                Some(PathElement::new([(p.x, low), (p.x, high)], colour.mix(0.6)))
            });
            chart.draw_series(ranges).map_err(failed)?;
        }
        // Where the lines are lower.
        let end = |place: fn(&[Point]) -> Option<&Point>| {
            let values = self.series.iter().filter_map(|s| place(&s.points));
            values
                .map(|point| point.y)
                .fold(f64::NEG_INFINITY, f64::max)
        };
        let rises = end(|points| points.last()) > end(|points| points.first());
        chart
            .configure_series_labels()
            .position(match rises {
                true => SeriesLabelPosition::UpperLeft,
                false => SeriesLabelPosition::UpperRight,
            })
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(font(13))
            .draw()
            .map_err(failed)?;
        Ok(())
    }
}

/// Draws in pixels.
struct Pen<'a, B: DrawingBackend>(&'a DrawingArea<B, Shift>);

impl<B: DrawingBackend> Pen<'_, B> {
    /// Text whose middle is at the height of `at`.
    fn text(
        &self,
        at: (i32, i32),
        size: i32,
        colour: RGBColor,
        side: HPos,
        words: &str,
    ) -> Result<()> {
        let style = TextStyle::from((FONT, size).into_font())
            .color(&colour)
            .pos(Pos::new(side, VPos::Center));
        let text = Text::new(words.to_owned(), at, style);
        self.0.draw(&text).map_err(failed)
    }

    fn line(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Result<()> {
        let path = PathElement::new([from, to], colour);
        self.0.draw(&path).map_err(failed)
    }

    /// A filled rectangle between two corners, at least one pixel wide.
    fn bar(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Result<()> {
        let (left, right) = (from.0.min(to.0), from.0.max(to.0).max(from.0.min(to.0) + 1));
        let bar = Rectangle::new([(left, from.1), (right, to.1)], colour.filled());
        self.0.draw(&bar).map_err(failed)
    }
}

/// Round numbers from 0 on, and the first that is not below `highest`.
fn ticks(highest: f64) -> (Vec<f64>, f64) {
    let rough = highest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let count = (highest / step).ceil().max(1.0) as u32;
    // Rounded: 3 × 0.1 is not 0.3.
    let ticks = (0..=count).map(|n| (f64::from(n) * step * 1e9).round() / 1e9);
    let ticks: Vec<f64> = ticks.collect();
    let top = ticks.last().copied().unwrap_or(step);
    (ticks, top)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waterfall() -> Waterfall {
        let step = |name: &str, value: f64| Step {
            name: name.into(),
            note: "not so".into(),
            value,
            low: value - 1.0,
            high: value + 1.0,
        };
        Waterfall {
            title: "Title <&>".into(),
            subtitle: "of a test".into(),
            unit: "ms".into(),
            floor: Some(2.0),
            steps: vec![
                step("conventional", 30.0),
                step("+ one", 20.0),
                step("+ two", 22.0),
            ],
        }
    }

    #[test]
    fn svg_holds_the_words_and_the_figures() {
        let text = svg(&waterfall()).unwrap();
        for word in [
            "conventional",
            "+ one",
            "(-10.00)",
            "(+2.00)",
            "&lt;&amp;&gt;",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(text.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn png_has_text_in_it() {
        let file = png(&waterfall()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), waterfall().size());
        // Where the title is, nothing but letters is drawn.
        let dark = (10..40)
            .flat_map(|y| (20..120).map(move |x| (y * 960 + x) * 3))
            .filter(|&at| pixels[at] < 128)
            .count();
        assert!(dark > 100, "{dark} dark pixels are no title");
    }

    #[test]
    fn lines_may_be_empty_or_one_point() {
        assert!(svg(&Lines::default()).unwrap().contains("</svg>"));
        let point = Point {
            x: 1.0,
            y: 40.0,
            range: Some((39.0, 41.0)),
        };
        let one = Lines {
            series: vec![Series {
                name: "only".into(),
                points: vec![point],
            }],
            ..Lines::default()
        };
        assert!(svg(&one).unwrap().contains("only"));
    }

    #[test]
    fn ticks_are_round_and_reach_the_end() {
        assert_eq!(ticks(9.3), (vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0], 10.0));
        assert_eq!(ticks(0.3).1, 0.3);
    }
}
