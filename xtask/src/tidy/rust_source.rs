//! Just enough reading of Rust source to tell code from comments and words from parts of words.
//!
//! Line by line and without a parser: block comments and strings over several lines count as code,
//! which can only make a check stricter.

/// Lines with their numbers, comments cut away.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(without_comment))
}

/// The code lines that are compiled outside tests: all but the items under `#[cfg(test)]`.
///
/// Such an item ends with the first line that closes something and is indented no deeper than the
/// attribute, as rustfmt has it.
pub(super) fn shipped_code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut test_item_indent = None;
    code_lines(text).filter(move |(_, code)| {
        let indent = code.len() - code.trim_start().len();
        match test_item_indent {
            None => {
                test_item_indent = (code.trim() == "#[cfg(test)]").then_some(indent);
                test_item_indent.is_none()
            }
            Some(outer) => {
                if indent <= outer && code.trim_end().ends_with([';', '}']) {
                    test_item_indent = None;
                }
                false
            }
        }
    })
}

/// The leading `//!` lines as one text.
pub(super) fn header(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Whether `needle` occurs where it is not the tail of a longer name: `log::` but not `catalog::`.
pub(super) fn contains_word(code: &str, needle: &str) -> bool {
    code.match_indices(needle).any(|(at, _)| {
        !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

fn without_comment(line: &str) -> &str {
    let mut in_string = false;
    let mut previous = ' ';
    for (at, this) in line.char_indices() {
        match this {
            // A quote in a char literal (`'"'`) opens nothing.
            '"' if previous != '\\' && !line[at + 1..].starts_with('\'') => in_string = !in_string,
            '/' if !in_string && previous == '/' => return &line[..at - 1],
            _ => {}
        }
        // An escaped backslash escapes nothing.
        previous = if this == '\\' && previous == '\\' { ' ' } else { this };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_cut_and_strings_are_not() {
        for (line, code) in [
            ("let a = 1; // why", "let a = 1; "),
            ("/// doc", ""),
            ("    //! doc", "    "),
            (r#"let url = "https://x"; // why"#, r#"let url = "https://x"; "#),
            (r#"let quote = '"'; // why"#, r#"let quote = '"'; "#),
            (r#"let a = "\\"; // why"#, r#"let a = "\\"; "#),
            (r#"let a = "\"//"; b"#, r#"let a = "\"//"; b"#),
            ("let half = a / b;", "let half = a / b;"),
        ] {
            assert_eq!(without_comment(line), code);
        }
    }

    #[test]
    fn a_word_is_not_the_tail_of_another() {
        assert!(contains_word("use log::info;", "log::"));
        assert!(!contains_word("use catalog::Entry;", "log::"));
        assert!(contains_word("catalog::f(log::g())", "log::"));
    }

    #[test]
    fn what_only_tests_compile_is_not_shipped() {
        let text = "\
a
#[cfg(test)]
extern crate std;
b
#[cfg(test)]
fn helper() {}
#[cfg(test)]
mod tests {
    use std::fs;
    fn f() {
    }
}
c
impl D {
    #[cfg(test)]
    fn e() {
        f();
    }
    g
}";
        let shipped: Vec<&str> = shipped_code_lines(text).map(|(_, code)| code.trim()).collect();
        assert_eq!(shipped, ["a", "b", "c", "impl D {", "g", "}"]);
    }

    #[test]
    fn the_header_ends_with_the_first_other_line() {
        assert_eq!(header("//! One.\n//! Two.\n\n//! Three."), "One. Two.");
    }
}
