//! The page: one file, pictures inside, no script.

use std::fmt::Write as _;

use super::{charts, compare};
use crate::draw::escaped;
use crate::expect::Broken;
use crate::study::Study;
use crate::verdict::Verdict;

const STYLE: &str = "
body { font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; color: #1f2328;
  background: #f6f8fa; margin: 0 auto; max-width: 1260px; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 36px 0 10px; }
p { max-width: 75ch; } .aside { color: #59636e; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; background: #fff; border-radius: 8px; }
th, td { padding: 7px 12px; text-align: right; border-bottom: 1px solid #d1d9e0; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
.stable { color: #00795a; } .vulnerable { color: #8a5a00; } .metastable { color: #b3261e; }
.verdict { font-weight: 600; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 16px; }
svg { width: 100%; height: auto; border: 1px solid #d1d9e0; border-radius: 8px; }
pre { background: #fff; border: 1px solid #d1d9e0; border-radius: 8px; padding: 12px; overflow-x: auto; }
.broken { color: #b3261e; }
";

pub(super) fn page(study: &Study) -> String {
    let name = escaped(&study.scenario.name);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}: relent sim</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{name}</h1>\n<p class=\"aside\">{}</p>\n<p>{}</p>\n",
        escaped(&study.headline()),
        escaped(&study.scenario.about),
    );
    html.push_str(&figures(study));
    html.push_str(&expectations(study));
    let frame = charts::Frame::over(&study.scenario, &study.results);
    let each = |draw: fn(&Study, charts::Frame, usize) -> Option<String>| -> Vec<String> {
        (0..study.results.len()).filter_map(|number| draw(study, frame, number)).collect()
    };
    section(
        &mut html,
        "Load over time",
        "The trouble is shaded. What decides is whether calls fall below the capacity line again; \
         the distance between calls and successes is wasted on everybody.",
        &each(|study, frame, number| {
            Some(charts::load(&study.scenario, &study.results[number], frame, number))
        }),
    );
    section(
        &mut html,
        "Retries",
        "Which attempts were made when. Stripes are callers who return together.",
        &each(|study, frame, number| {
            Some(charts::heat(&study.scenario, &study.results[number], frame, number))
        }),
    );
    let together: Vec<String> = [compare::completions(study), compare::amplification(study)]
        .into_iter()
        .flatten()
        .collect();
    section(&mut html, "Side by side", "", &together);
    section(
        &mut html,
        "What each policy recovers from",
        "The same kind of trouble at other loads and of other lengths, in small (a capacity of 100 \
         calls a second).",
        &each(|study, _, number| compare::phases(&study.results[number], number)),
    );
    html.push_str(&policies(study));
    html.push_str("</body>\n</html>\n");
    html
}

fn section(html: &mut String, title: &str, about: &str, pictures: &[String]) {
    if pictures.is_empty() {
        return;
    }
    let _ =
        write!(html, "<h2>{title}</h2>\n<p class=\"aside\">{about}</p>\n<div class=\"grid\">\n");
    pictures.iter().for_each(|picture| html.push_str(picture));
    html.push_str("</div>\n");
}

fn figures(study: &Study) -> String {
    let rows = study.rows();
    let mut html = "<div class=\"wide\"><table>\n<tr><th>policy</th><th>verdict</th>".to_owned();
    for (name, _) in rows.first().map(|row| row.cells.as_slice()).unwrap_or_default() {
        let _ = write!(html, "<th>{name}</th>");
    }
    html.push_str("</tr>\n");
    for row in &rows {
        let verdict = match row.verdict {
            Verdict::NothingToRecoverFrom => "–",
            verdict => verdict.name(),
        };
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"verdict {}\">{verdict}</td>",
            escaped(&row.policy),
            row.verdict.name(),
        );
        for (_, value) in &row.cells {
            let _ = write!(html, "<td>{}</td>", escaped(value));
        }
        html.push_str("</tr>\n");
    }
    html.push_str(
        "</table></div>\n<p class=\"aside\">calls/op: calls to the last server for each operation. \
         Recovery: from the end of the trouble until goodput was at 95 % of what it was before, and \
         stayed. Wasted: work for callers who had gone. p50, p99: of the operations that succeeded.</p>\n",
    );
    html
}

fn expectations(study: &Study) -> String {
    let broken = study.broken();
    if broken.is_empty() {
        return String::new();
    }
    let item =
        |broken: &Broken| format!("<li class=\"broken\">{}</li>\n", escaped(&broken.to_string()));
    let items: String = broken.iter().map(item).collect();
    format!("<h2>Expectations that do not hold</h2>\n<ul>\n{items}</ul>\n")
}

fn policies(study: &Study) -> String {
    let mut html = "<h2>The policies</h2>\n".to_owned();
    for result in &study.results {
        let spec = result.policy.spec();
        let text = serde_json::to_string_pretty(spec).unwrap_or_default();
        let _ = write!(
            html,
            "<details><summary>{}</summary>\n<pre>{}</pre>\n</details>\n",
            escaped(&spec.policy_id),
            escaped(&text)
        );
    }
    html
}
