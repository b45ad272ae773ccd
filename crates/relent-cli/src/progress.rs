//! Progress of long work, on a terminal and only there.

use std::fmt::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A bar for so many things, on stderr. Silent where that is no terminal.
pub(crate) fn bar(total: Option<u64>, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match total {
        Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {rate} {eta}",
        None => "{msg} {spinner} {human_pos} {rate}",
    };
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
        let _ = write!(text, "{:.0}/s", state.per_sec());
    }));
    bar.with_message(what)
}
