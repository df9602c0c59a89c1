//! A panic as an error: what is done for one node must not cost the others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result, or what the panic said. What was being changed meanwhile must not be used again.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| format!("panicked: {}", said(&*panic)))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        assert_eq!(caught(|| 7), Ok(7));
        let (none, some) = (Vec::<i32>::new(), "node n1".to_owned());
        assert!(caught(|| none[3]).unwrap_err().contains("index out of bounds"));
        assert_eq!(caught(|| -> i32 { panic!("{some}") }), Err("panicked: node n1".to_owned()));
    }
}
