/// Values of which there is mostly one: that one lies inside and needs no allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Few<T> {
    first: Option<T>,
    /// Empty while there is no first one.
    rest: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few { first: None, rest: Vec::new() }
    }
}

impl<T> Few<T> {
    /// None yet.
    pub fn new() -> Few<T> {
        Few::default()
    }

    /// None yet, and room for so many, of which the first needs none.
    pub fn with_capacity(count: usize) -> Few<T> {
        Few { first: None, rest: Vec::with_capacity(count.saturating_sub(1)) }
    }

    /// Just this one.
    pub fn one(value: T) -> Few<T> {
        Few { first: Some(value), rest: Vec::new() }
    }

    /// Appends a value.
    pub fn push(&mut self, value: T) {
        match &self.first {
            None => self.first = Some(value),
            Some(_) => self.rest.push(value),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.first.iter().len() + self.rest.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The value at a position.
    pub fn get(&self, at: usize) -> Option<&T> {
        if at == 0 { self.first.as_ref() } else { self.rest.get(at - 1) }
    }

    /// As [`Few::get`], to change it.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at == 0 { self.first.as_mut() } else { self.rest.get_mut(at - 1) }
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    /// As [`Few::iter`], to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.rest)
    }

    /// The only value, or all of them back.
    ///
    /// # Errors
    /// There are none or several.
    pub fn into_only(mut self) -> Result<T, Few<T>> {
        match self.first.take() {
            Some(only) if self.rest.is_empty() => Ok(only),
            first => Err(Few { first, rest: self.rest }),
        }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let mut values = values.into_iter();
        if self.first.is_none() {
            self.first = values.next();
        }
        if self.first.is_some() {
            self.rest.extend(values);
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Few<T> {
        let mut few = Few::new();
        few.extend(values);
        few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_a_vector() {
        for count in 0..5usize {
            let mut few = Few::with_capacity(count);
            (0..count).for_each(|value| few.push(value));
            assert_eq!(few, (0..count).collect(), "pushed and collected are the same");
            assert_eq!((few.len(), few.is_empty()), (count, count == 0));
            assert!((0..count).all(|at| few.get(at) == Some(&at)) && few.get(count).is_none());
            few.iter_mut().for_each(|value| *value += 1);
            few.extend([7, 8]);
            let expect: Vec<usize> = (1..=count).chain([7, 8]).collect();
            assert!(few.iter().eq(&expect), "{few:?}");
            let back = few.into_only().expect_err("there are several");
            assert_eq!(back.into_iter().collect::<Vec<_>>(), expect);
        }
        assert_eq!(Few::one(3).into_only(), Ok(3));
    }
}
