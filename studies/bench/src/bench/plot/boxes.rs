//! Boxes: how values are distributed, in several cases beside each other.

use anyhow::Result;
use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingArea;
use plotters::element::{PathElement, Rectangle};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, WHITE};

use super::{FAINT, GRID, INK, Pen, Plot, SERIES, WORSE, failed, ticks};

/// Distributions beside each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boxes {
    pub(crate) title: String,
    /// What is measured, with its unit.
    pub(crate) y: String,
    /// What the mark at the top of a box is, such as "99.99 %".
    pub(crate) tail: String,
    /// Whose means the diamonds are; empty: there are none.
    pub(crate) reference: String,
    pub(crate) boxes: Vec<Spread>,
}

/// One distribution.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) name: String,
    /// 5, 25, 50, 75 and 95 % of the values lie below.
    pub(crate) quantiles: [f64; 5],
    pub(crate) mean: f64,
    pub(crate) tail: f64,
    /// What somebody else says of the mean.
    pub(crate) reference: Option<f64>,
}

impl Boxes {
    const LEFT: i32 = 80;
    const RIGHT: i32 = 700;
    const TOP: i32 = 84;
    const BOTTOM: i32 = 400;
    /// Half of a box.
    const HALF: i32 = 26;
}

impl Plot for Boxes {
    fn size(&self) -> (u32, u32) {
        (720, 450)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let pen = Pen(area);
        let highest = self.boxes.iter().map(|b| b.tail.max(b.quantiles[4]));
        let (ticks, top) = ticks(highest.fold(1e-6, f64::max));
        let height = f64::from(Self::BOTTOM - Self::TOP);
        let y = |value: f64| Self::BOTTOM - (value / top * height).round() as i32;
        pen.text((20, 24), 19, INK, HPos::Left, &self.title)?;
        let mut words = format!(
            "box: 25 to 75 %, its line: median, whiskers: 5 and 95 %, circle: mean, cross: {}",
            self.tail
        );
        if !self.reference.is_empty() {
            words += &format!(", diamond: mean of {}", self.reference);
        }
        pen.text((20, 48), 13, FAINT, HPos::Left, &words)?;
        pen.text((20, 68), 13, FAINT, HPos::Left, &self.y)?;
        for tick in &ticks {
            pen.line((Self::LEFT, y(*tick)), (Self::RIGHT, y(*tick)), GRID)?;
            pen.text(
                (Self::LEFT - 8, y(*tick)),
                13,
                FAINT,
                HPos::Right,
                &format!("{tick}"),
            )?;
        }
        let width =
            (Self::RIGHT - Self::LEFT) / i32::try_from(self.boxes.len().max(1)).unwrap_or(1);
        for (place, spread) in (0..).zip(&self.boxes) {
            let x = Self::LEFT + width * place + width / 2;
            spread.draw(&pen, x, &y)?;
            pen.text((x, Self::BOTTOM + 18), 14, INK, HPos::Center, &spread.name)?;
        }
        Ok(())
    }
}

impl Spread {
    fn draw<B: DrawingBackend>(
        &self,
        pen: &Pen<'_, B>,
        x: i32,
        y: &dyn Fn(f64) -> i32,
    ) -> Result<()> {
        let half = Boxes::HALF;
        let [low, from, median, to, high] = self.quantiles.map(y);
        pen.line((x, low), (x, from), INK)?;
        pen.line((x, to), (x, high), INK)?;
        for end in [low, high] {
            pen.line((x - half / 2, end), (x + half / 2, end), INK)?;
        }
        let corners = [(x - half, to), (x + half, from)];
        let fill = Rectangle::new(corners, SERIES[0].mix(0.35).filled());
        pen.0.draw(&fill).map_err(failed)?;
        let edge = Rectangle::new(corners, SERIES[0]);
        pen.0.draw(&edge).map_err(failed)?;
        pen.line((x - half, median), (x + half, median), INK)?;
        let mean = y(self.mean);
        let ring = plotters::element::Circle::new((x, mean), 4, INK);
        pen.0.draw(&ring).map_err(failed)?;
        let words = format!("{:.2}", self.mean);
        pen.text((x + half + 6, mean), 13, INK, HPos::Left, &words)?;
        let tail = y(self.tail);
        pen.line((x - 4, tail - 4), (x + 4, tail + 4), INK)?;
        pen.line((x - 4, tail + 4), (x + 4, tail - 4), INK)?;
        if let Some(reference) = self.reference {
            let at = y(reference);
            // Beside the box, so that it does not cover our mean.
            let middle = x - half - 10;
            let corners = [(-5, 0), (0, -5), (5, 0), (0, 5), (-5, 0)];
            let diamond = corners.map(|(dx, dy)| (middle + dx, at + dy));
            let diamond = PathElement::new(diamond, WORSE.stroke_width(2));
            pen.0.draw(&diamond).map_err(failed)?;
            let words = format!("{reference:.2}");
            pen.text((middle - 9, at), 13, WORSE, HPos::Right, &words)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg;
    use super::*;

    #[test]
    fn boxes_show_their_means_and_those_of_others() {
        let spread = |name: &str, mean, reference| Spread {
            name: name.into(),
            quantiles: [0.5, 0.8, 1.0, 1.6, 2.5],
            mean,
            tail: 7.5,
            reference,
        };
        let plot = Boxes {
            title: "Delay".into(),
            y: "ms".into(),
            tail: "99.99 %".into(),
            reference: "the paper".into(),
            boxes: vec![spread("30", 1.31, Some(1.32)), spread("60", 1.21, None)],
        };
        let text = svg(&plot).unwrap();
        for word in ["1.31", "1.32", "1.21", "99.99 %", "the paper", "Delay"] {
            assert!(text.contains(word), "{word}");
        }
        // Nothing to show is no reason to fail.
        assert!(svg(&Boxes::default()).unwrap().contains("</svg>"));
    }
}
