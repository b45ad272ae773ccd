//! The plane of a chart: two scales, axes with ticks, and what is drawn between them.

use super::svg::{Anchor, FAINT, GRID, LABEL, SMALL, Stroke, Svg};

/// Where a value lies between the two ends of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The value at its beginning.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
}

/// A rectangle of the picture with a scale in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    /// Its left edge in the picture.
    pub left: f64,
    /// Its upper edge in the picture.
    pub top: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// The horizontal scale.
    pub x: Scale,
    /// The vertical scale.
    pub y: Scale,
}

/// A value and what is written beside it.
pub type Tick = (f64, String);

impl Scale {
    fn share(self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from)
    }
}

impl Plot {
    /// Where a value of x lies.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.x.share(value)
    }

    /// Where a value of y lies.
    pub fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - self.y.share(value))
    }

    /// Where a point lies.
    pub fn at(&self, point: (f64, f64)) -> (f64, f64) {
        (self.x(point.0), self.y(point.1))
    }

    /// The axes with their ticks.
    pub fn axes(&self, svg: &mut Svg, x_ticks: &[Tick], y_ticks: &[Tick]) {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        let grid = Stroke { colour: GRID, width: 1.0, dashes: "" };
        let axis = Stroke { colour: FAINT, width: 1.0, dashes: "" };
        for (value, text) in y_ticks {
            let y = self.y(*value);
            svg.path(&[(self.left, y), (right, y)], grid);
            svg.text((self.left - 8.0, y + 4.0), Anchor::End, SMALL, text);
        }
        for (value, text) in x_ticks {
            let x = self.x(*value);
            svg.path(&[(x, bottom), (x, bottom + 5.0)], axis);
            svg.text((x, bottom + 19.0), Anchor::Middle, SMALL, text);
        }
        svg.path(&[(self.left, bottom), (right, bottom)], axis);
    }

    /// Names the horizontal axis.
    pub fn name_x(&self, svg: &mut Svg, name: &str) {
        let at = (self.left + self.width / 2.0, self.top + self.height + 40.0);
        svg.text(at, Anchor::Middle, LABEL, name);
    }

    /// Names the vertical axis.
    pub fn name_y(&self, svg: &mut Svg, name: &str) {
        svg.upward_text((self.left - 56.0, self.top + self.height / 2.0), LABEL, name);
    }

    /// A light band from one value of x to another, over the whole height.
    pub fn band(&self, svg: &mut Svg, from: f64, to: f64, fill: &str) {
        svg.rect((self.x(from), self.top), (self.x(to) - self.x(from), self.height), fill);
    }

    /// A bar from `from` to `to` on the x axis, from 0 up to `value`.
    pub fn bar(&self, svg: &mut Svg, (from, to): (f64, f64), value: f64, fill: &str) {
        let (left, top) = self.at((from, value));
        let gap = 0.4;
        let size = (self.x(to) - left - gap, self.y(self.y.from) - top);
        svg.rect((left, top), size, fill);
    }

    /// A line through these points.
    pub fn line(&self, svg: &mut Svg, points: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<(f64, f64)> = points.iter().map(|point| self.at(*point)).collect();
        svg.path(&points, stroke);
    }
}

/// A sample of the stroke and a name beside it.
pub fn key(svg: &mut Svg, (x, y): (f64, f64), stroke: Stroke, name: &str) {
    svg.path(&[(x, y - 4.5), (x + 34.0, y - 4.5)], stroke);
    svg.text((x + 42.0, y), Anchor::Start, LABEL, name);
}

/// A coloured square and a name beside it.
pub fn swatch(svg: &mut Svg, (x, y): (f64, f64), fill: &str, name: &str) {
    svg.rect((x, y - 11.0), (14.0, 14.0), fill);
    svg.text((x + 21.0, y), Anchor::Start, LABEL, name);
}

/// Ticks with their numbers as they are.
pub fn ticks(values: impl IntoIterator<Item = u32>, unit: &str) -> Vec<Tick> {
    values.into_iter().map(|value| (f64::from(value), format!("{value}{unit}"))).collect()
}
