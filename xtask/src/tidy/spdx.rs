//! Is a licence expression satisfied by a set of licences we accept?
//!
//! SPDX as crates write it: `OR`, `AND`, parentheses, `WITH`, and the old `MIT/Apache-2.0`. A
//! licence `WITH` an exception is a name of its own and must be on the list as such.

/// Whether some choice of licences that the expression offers is wholly within `allowed`.
/// The error says what is wrong with the expression.
pub(super) fn is_satisfied(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let tokens = tokens(expression);
    let mut parser = Parser { tokens: &tokens, allowed };
    let satisfied = parser.any_of()?;
    match parser.tokens.first() {
        None => Ok(satisfied),
        Some(token) => Err(format!("expected an operator, got `{token}`")),
    }
}

struct Parser<'a> {
    tokens: &'a [String],
    allowed: &'a [&'a str],
}

// Both sides of an operator are always parsed, so a broken right side is never missed.
impl Parser<'_> {
    fn any_of(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all_of()?;
        while self.take("OR") {
            satisfied |= self.all_of()?;
        }
        Ok(satisfied)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let satisfied = self.any_of()?;
            return if self.take(")") { Ok(satisfied) } else { Err("expected `)`".to_owned()) };
        }
        let mut licence = self.name()?;
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.name()?);
        }
        Ok(self.allowed.contains(&licence.as_str()))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.tokens {
            [] => Err("expected a licence, got the end".to_owned()),
            [first, rest @ ..] if !is_operator(first) => {
                self.tokens = rest;
                Ok(first.clone())
            }
            [first, ..] => Err(format!("expected a licence, got `{first}`")),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        match self.tokens {
            [first, rest @ ..] if first == token => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }
}

fn tokens(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn is_operator(token: &str) -> bool {
    matches!(token, "OR" | "AND" | "WITH" | "(" | ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Zlib", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn expressions_within_the_list_are_satisfied() {
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT / GPL-3.0",
            "MIT AND Zlib",
            "(MIT OR GPL-3.0) AND Zlib",
            "GPL-3.0 OR MIT AND Zlib",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "((MIT))",
        ] {
            assert_eq!(is_satisfied(expression, ALLOWED), Ok(true), "{expression}");
        }
    }

    #[test]
    fn expressions_that_need_another_licence_are_not() {
        for expression in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 AND (MIT OR Zlib)",
            "(MIT OR Zlib) AND (GPL-2.0 OR GPL-3.0)",
            "MIT AND GPL-3.0 OR GPL-2.0",
            "MIT WITH LLVM-exception",
            "mit",
            "MIT+",
        ] {
            assert_eq!(is_satisfied(expression, ALLOWED), Ok(false), "{expression}");
        }
    }

    #[test]
    fn broken_expressions_are_errors_and_not_answers() {
        for expression in
            ["", "MIT OR", "AND MIT", "MIT Zlib", "(MIT", "MIT)", "MIT WITH", "()", "MIT or Zlib"]
        {
            assert!(is_satisfied(expression, ALLOWED).is_err(), "{expression}");
        }
    }
}
