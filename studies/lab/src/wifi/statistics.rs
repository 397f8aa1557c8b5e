//! Means of repeated runs with confidence intervals.

/// The mean of several runs, and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the mean's 95 % confidence interval (Student's t). `None` for a single run.
    pub half: Option<f64>,
}

/// The 0.975 quantiles of Student's t, by degrees of freedom from 1 on.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Estimate {
    /// Computes the estimate from one value of each run. Missing values are ignored. `None` if there are no values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Estimate> {
        let values: Vec<f64> = values.into_iter().flatten().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Estimate { mean, half: None }),
            many => {
                let squares = values.iter().map(|value| (value - mean).powi(2));
                let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
                // Beyond the table, the quantile falls to 1.96. This bound is at most 0.002 too high.
                let beyond = 1.96 + 2.5 / (count - 1.0);
                let student = STUDENT.get(many - 2).copied().unwrap_or(beyond);
                Some(Estimate {
                    mean,
                    half: Some(student * deviation / count.sqrt()),
                })
            }
        }
    }
}

impl std::fmt::Display for Estimate {
    /// The formatter's precision is the number of decimals, 2 by default.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$}", self.mean)?;
        match self.half {
            Some(half) => write!(f, " ± {half:.digits$}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_textbooks() {
        let values = [5.0, 6.0, 7.0, 8.0].map(Some);
        let Estimate { mean, half } = Estimate::of(values).unwrap();
        assert_eq!(mean, 6.5);
        // The half interval is 3.182 × 1.29099 / 2.
        assert!((half.unwrap() - 2.0540).abs() < 1e-3, "{half:?}");
        // The quantile for 31 degrees of freedom is 2.0395, and the standard deviation is 0.50800.
        let many = (0..32).map(|n| Some(f64::from(n % 2)));
        let half = Estimate::of(many).unwrap().half.unwrap();
        assert!(
            (half - 2.0395 * 0.508 / 32_f64.sqrt()).abs() < 2e-4,
            "{half}"
        );
        assert_eq!(Estimate::of([None]), None);
        assert_eq!(Estimate::of([Some(1.0), None]).unwrap().half, None);
    }
}
