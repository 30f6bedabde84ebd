//! A whole number on the command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Takes the whole numbers of this range, and names it to whoever gives another value. All options that are numbers use it.
pub(crate) fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("it must be a whole number from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_number_is_within_its_range() {
        let share = number(1..=100_u16);
        assert_eq!((share("1"), share("100")), (Ok(1), Ok(100)));
        for wrong in ["0", "101", "70000", "-1", "x", "", "1x", " 1", "1.5"] {
            assert_eq!(share(wrong), Err("it must be a whole number from 1 to 100".to_owned()), "{wrong}");
        }
        assert_eq!(number(NonZeroU32::MIN..=NonZeroU32::MAX)("7"), NonZeroU32::new(7).ok_or(String::new()));
    }
}
