//! Progress of long work, on a terminal and only there.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many things, on stderr. Silent where that is no terminal.
pub(crate) fn bar(total: Option<u64>, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match total {
        Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
        None => "{msg} {spinner} {human_pos} {per_sec}",
    };
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_message(what)
}
