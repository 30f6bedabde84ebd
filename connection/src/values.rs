//! The values of an answer, read in order.

use std::marker::PhantomData;
use std::vec::IntoIter;

use bytes::Bytes;
use redis::Value;
use tenure_steps::Unexpected;

/// The values of an answer, for reading in order. A value that breaks the contract is an `E`, which names the call and
/// quotes the value.
#[derive(Debug)]
pub struct Values<E> {
    call: &'static str,
    items: IntoIter<Value>,
    error: PhantomData<fn() -> E>,
}

impl<E: From<Unexpected>> Values<E> {
    /// The values of a list. `call` is the name of the script or the command.
    ///
    /// # Errors
    /// The answer is no list. The same holds for each other method: the next value is missing, or is of another kind.
    pub fn of(call: &'static str, value: Value) -> Result<Self, E> {
        match value {
            Value::Array(items) => Ok(Self { call, items: items.into_iter(), error: PhantomData }),
            other => Err(Unexpected::new(call, "a list", &other).into()),
        }
    }

    /// The name of the script or the command.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The number of remaining values.
    #[allow(clippy::len_without_is_empty, reason = "the number falls with each value that is read")]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Sees that this many values remain.
    ///
    /// # Errors
    /// More or fewer remain.
    pub fn check(&self, count: usize, expected: &'static str) -> Result<(), E> {
        if self.len() == count {
            return Ok(());
        }
        Err(self.unexpected(expected, &Value::Array(self.items.as_slice().to_vec())))
    }

    /// The error of an answer with this value where `expected` was expected.
    pub fn unexpected(&self, expected: &'static str, value: &Value) -> E {
        Unexpected::new(self.call, expected, value).into()
    }

    /// The next value, of any kind.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn value(&mut self) -> Result<Value, E> {
        self.items.next().ok_or_else(|| self.unexpected("another value", &Value::Nil))
    }

    /// The next value, a list.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn list(&mut self) -> Result<Self, E> {
        let value = self.value()?;
        Self::of(self.call, value)
    }

    /// The next value, bytes or nothing.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn bytes_or_nil(&mut self) -> Result<Option<Bytes>, E> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::SimpleString(text) => Ok(Some(text.into())),
            Value::Int(number) => Ok(Some(number.to_string().into())),
            Value::Nil | Value::Boolean(false) => Ok(None),
            other => Err(self.unexpected("bytes", &other)),
        }
    }

    /// The next value, bytes.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn bytes(&mut self) -> Result<Bytes, E> {
        self.bytes_or_nil()?.ok_or_else(|| self.unexpected("bytes", &Value::Nil))
    }

    /// The next value, read by `parse`.
    ///
    /// # Errors
    /// As of [`of`](Self::of), or `parse` cannot read the text.
    pub fn parsed<T>(
        &mut self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, E> {
        let bytes = self.bytes()?;
        let read = std::str::from_utf8(&bytes).ok().and_then(parse);
        read.ok_or_else(|| self.unexpected(expected, &Value::BulkString(bytes.to_vec())))
    }

    /// The next value, text.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn text(&mut self) -> Result<String, E> {
        self.parsed("text", |text| Some(text.to_owned()))
    }

    /// The next value, a number.
    ///
    /// # Errors
    /// As of [`of`](Self::of).
    pub fn number(&mut self) -> Result<u64, E> {
        match self.items.as_slice().first() {
            Some(&Value::Int(number)) => {
                self.items.next();
                u64::try_from(number).map_err(|_| self.unexpected("a number", &Value::Int(number)))
            }
            _ => self.parsed("a number", |text| text.parse().ok()),
        }
    }

    /// The next values, at most this many, as a list.
    #[must_use]
    pub fn split(&mut self, most: usize) -> Self {
        let items = self.items.by_ref().take(most).collect::<Vec<_>>().into_iter();
        Self { call: self.call, items, error: PhantomData }
    }

    /// Sees that no value remains.
    ///
    /// # Errors
    /// A value remains.
    pub fn end(&mut self) -> Result<(), E> {
        match self.items.next() {
            Some(left) => Err(self.unexpected("no more values", &left)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn values(items: Vec<Value>) -> Values<Unexpected> {
        Values::of("take", Value::Array(items)).unwrap()
    }

    #[test]
    fn numbers_come_as_integers_and_as_text() {
        let text = Value::BulkString("5".into());
        let mut values = values(vec![Value::Int(4), text, Value::Int(-1), Value::Nil]);
        assert_eq!((values.number(), values.number()), (Ok(4), Ok(5)));
        assert!(values.number().is_err(), "negative");
        assert!(values.number().is_err(), "nothing");
        assert!(values.number().is_err(), "no value left");
    }

    #[test]
    fn bytes_come_in_each_kind_of_text_and_nothing_in_two() {
        let text = || Value::SimpleString("a".into());
        let mut values = values(vec![text(), Value::Int(7), Value::Nil, Value::Boolean(false), Value::Okay]);
        assert_eq!((values.bytes(), values.bytes()), (Ok("a".into()), Ok("7".into())));
        assert_eq!((values.bytes_or_nil(), values.bytes_or_nil()), (Ok(None), Ok(None)));
        assert_eq!((values.len(), values.bytes().is_err(), values.end()), (1, true, Ok(())));
    }

    #[test]
    fn a_strange_value_names_the_call_and_the_expectation() {
        let error = Values::<Unexpected>::of("take", Value::Okay).unwrap_err().to_string();
        assert!(error.starts_with("take answered") && error.contains("a list"), "{error}");
        let odd = || Value::BulkString(vec![0xff]);
        let error = values(vec![odd()]).text().unwrap_err().to_string();
        assert!(error.contains("text"), "{error}");
        let mut values = values(vec![odd(), odd(), odd()]);
        let error = values.check(2, "two values").unwrap_err().to_string();
        assert!(error.contains("255") && values.check(3, "three values").is_ok(), "{error}");
        assert_eq!(values.split(2).len(), 2);
        assert!(values.end().unwrap_err().to_string().contains("no more values"));
        assert!(values.split(2).value().is_err());
    }
}
