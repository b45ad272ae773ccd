//! A small SVG writer: lines, steps, rectangles and text, with the same bytes on every machine.
//!
//! Coordinates are written with one decimal. Each picture has its own light background, so that it
//! reads the same on a dark page, and a title and a description for those who cannot see it.

use std::fmt::Write as _;

/// Text and lines that matter.
pub const INK: &str = "#1f2328";
/// Text and lines that matter less.
pub const FAINT: &str = "#59636e";
/// Lines to measure by.
pub const GRID: &str = "#d1d9e0";
/// A stretch of time in which something was wrong.
pub const SHADE: &str = "#eef1f4";

/// Colours of Okabe and Ito, which people with any kind of colour vision can tell apart.
pub const BLUE: &str = "#0072b2";
/// Vermilion.
pub const VERMILION: &str = "#d55e00";
/// Green.
pub const GREEN: &str = "#00795a";
/// Purple.
pub const PURPLE: &str = "#a8457f";

/// How a line is drawn: never by colour alone.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    /// Its colour.
    pub colour: &'static str,
    /// Its width.
    pub width: f64,
    /// Lengths of strokes and gaps, as SVG writes them; empty for a solid line.
    pub dashes: &'static str,
}

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The left.
    Start,
    /// The middle.
    Middle,
    /// The right.
    End,
}

/// How text looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Its size.
    pub size: u32,
    /// Its weight, 400 or 600.
    pub weight: u32,
    /// Its colour.
    pub colour: &'static str,
}

/// The title of a picture.
pub const HEADING: Style = Style { size: 17, weight: 600, colour: INK };
/// The title of a part.
pub const STRONG: Style = Style { size: 14, weight: 600, colour: INK };
/// Names beside lines and axes.
pub const LABEL: Style = Style { size: 13, weight: 400, colour: INK };
/// Numbers on axes, and remarks.
pub const SMALL: Style = Style { size: 12, weight: 400, colour: FAINT };

/// A picture that is being drawn.
#[derive(Clone, Debug)]
pub struct Svg {
    width: u32,
    height: u32,
    /// What stands before the ids of title and description, on a page with many pictures.
    prefix: String,
    title: String,
    description: String,
    body: String,
}

impl Svg {
    /// An empty picture with its title, and a description for those who cannot see it.
    pub fn new(width: u32, height: u32, title: &str, description: &str) -> Svg {
        let mut svg = Svg {
            width,
            height,
            prefix: String::new(),
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
        };
        svg.text((20.0, 30.0), Anchor::Start, HEADING, title);
        svg
    }

    /// The same picture on a page with others; the prefix must be its own.
    #[must_use]
    pub fn among(self, prefix: &str) -> Svg {
        Svg { prefix: format!("{prefix}-"), ..self }
    }

    /// A filled rectangle.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        let ((x, y), (width, height)) = (at, size);
        self.push(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    /// A line through these points.
    pub fn path(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let mut line = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let verb = if index == 0 { "M" } else { " L" };
            line.push_str(&format!("{verb}{x:.1} {y:.1}"));
        }
        let Stroke { colour, width, dashes } = stroke;
        let dashes = match dashes {
            "" => String::new(),
            dashes => format!(r#" stroke-dasharray="{dashes}""#),
        };
        self.push(format_args!(
            r#"<path d="{line}" fill="none" stroke="{colour}" stroke-width="{width:.1}" stroke-linejoin="round"{dashes}/>"#
        ));
    }

    /// A dot.
    pub fn dot(&mut self, at: (f64, f64), colour: &str) {
        let (x, y) = at;
        self.push(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#));
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, style: Style, text: &str) {
        self.placed_text(at, anchor, style, "", text);
    }

    /// Text that reads upwards, for the name of a vertical axis.
    pub fn upward_text(&mut self, at: (f64, f64), style: Style, text: &str) {
        let (x, y) = at;
        let turn = format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#);
        self.placed_text(at, Anchor::Middle, style, &turn, text);
    }

    fn placed_text(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        style: Style,
        turn: &str,
        text: &str,
    ) {
        let (x, y) = at;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let Style { size, weight, colour } = style;
        let text = escaped(text);
        self.push(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{colour}"{turn}>{text}</text>"#
        ));
    }

    /// The picture's text.
    pub fn finish(self) -> String {
        let Svg { width, height, prefix, title, description, body } = self;
        let (title, description) = (escaped(&title), escaped(&description));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{prefix}title {prefix}desc" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif">
<title id="{prefix}title">{title}</title>
<desc id="{prefix}desc">{description}</desc>
<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>
{body}</svg>
"##
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("a string takes everything");
    }
}

/// Text that cannot be taken for markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_element() {
        let mut svg = Svg::new(10, 10, "a < b & c", "");
        svg.text((0.0, 0.0), Anchor::End, LABEL, "</svg>");
        let written = svg.finish();
        assert!(written.contains("a &lt; b &amp; c") && written.contains("&lt;/svg&gt;"));
        assert_eq!(written.matches("</svg>").count(), 1);
    }
}
