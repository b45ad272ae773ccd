//! The methods a task may use, and what each of them asks for. REQ-I1.

use crate::names::named;

named! {
    /// The method of a task's request.
    ///
    /// ```
    /// use relent_api::Method;
    ///
    /// assert_eq!("PATCH".parse(), Ok(Method::Patch));
    /// assert!(Method::Patch.needs_key());
    /// assert!("post".parse::<Method>().is_err());
    /// ```
    Method, "a method" {
        Get "GET" "Reads."
        Head "HEAD" "Reads the head."
        Post "POST" "Does something, each time anew; the default."
        Put "PUT" "Puts one state in place of another."
        Patch "PATCH" "Changes something, each time anew."
        Delete "DELETE" "Takes something away."
        Options "OPTIONS" "Asks what is possible."
    }
}

impl Method {
    /// Whether only an idempotency key makes a second attempt safe.
    pub const fn needs_key(self) -> bool {
        matches!(self, Method::Post | Method::Patch)
    }

    /// Whether a body means anything with it.
    pub const fn takes_body(self) -> bool {
        !matches!(self, Method::Get | Method::Head)
    }
}

#[cfg(test)]
mod tests {
    use relent_policy::Repeatable;

    use super::*;

    #[test]
    fn the_methods_that_need_a_key_are_those_the_engine_would_not_repeat() {
        for method in Method::ALL {
            let repeatable = Repeatable::by_method(method.name(), None);
            assert_eq!(method.needs_key(), repeatable == Repeatable::No, "{method}");
        }
    }
}
