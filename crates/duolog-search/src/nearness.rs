//! Similarity of embeddings.

/// The measure of similarity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The cosine of the angle: 1 for the same direction, -1 for opposite directions.
    Cosine,
    /// The Euclidean distance: 0 for equal vectors.
    L2,
}

/// The vector that others are compared with.
#[derive(Clone, Debug)]
pub struct Wanted {
    numbers: Vec<f32>,
    length: f32,
    metric: Metric,
}

impl Wanted {
    /// Creates a comparison with this vector of finite numbers.
    pub fn new(numbers: &[f32], metric: Metric) -> Self {
        let packed: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let [squares] = sums(numbers, &packed, |a, _| [a * a]);
        // A length of 0 is not used; the cosine is then computed in 64 bits.
        let length = if squares.is_normal() { squares.sqrt() } else { 0.0 };
        Self { numbers: numbers.to_vec(), length, metric }
    }

    /// Returns the number of dimensions.
    pub fn dimension(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the nearness of a packed embedding of the same dimension: larger is nearer.
    ///
    /// With [`Metric::L2`] it is the negated distance. Zero is never negative, so that all zeros compare equal.
    pub fn nearness(&self, packed: &[[u8; 4]]) -> f32 {
        match self.metric {
            Metric::Cosine => {
                let [product, squares] = sums(&self.numbers, packed, |a, b| [a * b, b * b]);
                let lengths = self.length * squares.sqrt();
                // The squares of very large and very small numbers do not fit in 32 bits.
                let is_exact = squares.is_normal() && lengths.is_normal() && product.is_finite();
                0.0 + if is_exact { product / lengths } else { self.exact_cosine(packed) }
            }
            Metric::L2 => {
                let [squares] = sums(&self.numbers, packed, |a, b| [(a - b) * (a - b)]);
                0.0 - if squares.is_normal() { squares.sqrt() } else { self.exact_distance(packed) }
            }
        }
    }

    /// Returns the score of a nearness: the cosine, or the distance.
    pub fn score(&self, nearness: f32) -> f32 {
        match self.metric {
            Metric::Cosine => nearness,
            Metric::L2 => 0.0 - nearness,
        }
    }

    fn pairs(&self, packed: &[[u8; 4]]) -> impl Iterator<Item = (f64, f64)> {
        self.numbers.iter().zip(packed).map(|(a, b)| (f64::from(*a), f64::from(f32::from_le_bytes(*b))))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a cosine is at most 1")]
    fn exact_cosine(&self, packed: &[[u8; 4]]) -> f32 {
        let (mut product, mut ours, mut theirs) = (0.0, 0.0, 0.0);
        for (a, b) in self.pairs(packed) {
            product += a * b;
            ours += a * a;
            theirs += b * b;
        }
        let lengths = ours.sqrt() * theirs.sqrt();
        // A zero vector has no direction.
        if lengths > 0.0 { (product / lengths) as f32 } else { 0.0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the distance is limited to the largest float")]
    fn exact_distance(&self, packed: &[[u8; 4]]) -> f32 {
        let squares: f64 = self.pairs(packed).map(|(a, b)| (a - b) * (a - b)).sum();
        (squares.sqrt() as f32).min(f32::MAX)
    }
}

/// Number of parallel sums, so that the compiler can vectorise the loop.
const WIDE: usize = 16;

/// Returns the sums of `of` over the pairs of both vectors.
fn sums<const N: usize>(vector: &[f32], packed: &[[u8; 4]], of: impl Fn(f32, f32) -> [f32; N]) -> [f32; N] {
    let mut wide = [[0_f32; WIDE]; N];
    let (ours, our_rest) = vector.as_chunks::<WIDE>();
    let (theirs, their_rest) = packed.as_chunks::<WIDE>();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for at in 0..WIDE {
            let parts = of(ours[at], f32::from_le_bytes(theirs[at]));
            for (sums, part) in wide.iter_mut().zip(parts) {
                sums[at] += part;
            }
        }
    }
    let mut sums = wide.map(|sums| sums.into_iter().sum::<f32>());
    for (a, b) in our_rest.iter().zip(their_rest) {
        let parts = of(*a, f32::from_le_bytes(*b));
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum += part;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(metric: Metric, ours: &[f32], theirs: &[f32]) -> f32 {
        let packed: Vec<[u8; 4]> = theirs.iter().map(|number| number.to_le_bytes()).collect();
        let wanted = Wanted::new(ours, metric);
        wanted.score(wanted.nearness(&packed))
    }

    fn close(found: f32, expected: f32) -> bool {
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0)
    }

    #[test]
    fn cosine_and_distance_are_computed() {
        let (ours, theirs): (Vec<f32>, Vec<f32>) =
            (0_u8..40).map(|at| (f32::from(at).sin(), f32::from(at).cos())).unzip();
        let exact = |of: fn(f64, f64) -> f64| -> f64 {
            ours.iter().zip(&theirs).map(|(a, b)| of(f64::from(*a), f64::from(*b))).sum()
        };
        let lengths = exact(|a, _| a * a).sqrt() * exact(|_, b| b * b).sqrt();
        assert!((f64::from(score(Metric::Cosine, &ours, &theirs)) - exact(|a, b| a * b) / lengths).abs() < 1e-6);
        assert!((f64::from(score(Metric::L2, &ours, &theirs)) - exact(|a, b| (a - b) * (a - b)).sqrt()).abs() < 1e-5);
        assert!(close(score(Metric::Cosine, &ours, &ours), 1.0));
        assert_eq!(score(Metric::L2, &ours, &ours).to_bits(), 0.0_f32.to_bits());
    }

    #[test]
    fn very_large_and_very_small_numbers_are_compared() {
        for size in [1e38, 1e30, 1e-22, 1e-30, 1e-44] {
            assert!(close(score(Metric::Cosine, &[size, size], &[size, 0.0]), 0.5_f32.sqrt()), "{size}");
            assert!(close(score(Metric::Cosine, &[size, 0.0], &[-size, 0.0]), -1.0), "{size}");
            for other in [1e18, 1e-18] {
                assert!(close(score(Metric::Cosine, &[size, size], &[other, 0.0]), 0.5_f32.sqrt()), "{size} {other}");
                assert!(close(score(Metric::Cosine, &[other, 0.0], &[size, size]), 0.5_f32.sqrt()), "{size} {other}");
            }
            let distance = score(Metric::L2, &[size, 0.0], &[-size, 0.0]);
            assert!((distance / size - 2.0).abs() < 1e-2, "{size}: {distance}");
        }
        assert!(close(score(Metric::Cosine, &[0.0, 0.0], &[1.0, 0.0]), 0.0), "a zero vector has no direction");
        assert!(score(Metric::L2, &[f32::MAX; 9], &[f32::MIN; 9]).is_finite());
    }
}
