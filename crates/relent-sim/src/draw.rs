//! Pictures: a small SVG writer and the plane of a chart, for reports and for the docs. REQ-X1.

mod plot;
mod svg;

pub use plot::{Plot, Scale, Tick, key, swatch, ticks};
pub use svg::{
    Anchor, BLUE, FAINT, GREEN, GRID, HEADING, INK, LABEL, PURPLE, SHADE, SMALL, STRONG, Stroke,
    Style, Svg, VERMILION, escaped,
};
