//! Explains to a player why a job is pending. The codes are those of squeue(1), section "JOB REASON CODES".

/// The codes and their texts. [`of_limit`] handles the unlisted codes for limits of an account, a quality of service or
/// a partition.
const WORDS: &[(&str, &str)] = &[
    (
        "AccountNotAllowed",
        "its partition does not accept jobs of its account",
    ),
    (
        "BadConstraints",
        "no node of the cluster meets the application's requirements",
    ),
    ("BeginTime", "its start time is in the future"),
    (
        "Cleaning",
        "the cluster is still cleaning up after the job's previous run",
    ),
    ("DependencyNeverSatisfied", "it depends on a failed job"),
    ("Dependency", "it depends on an unfinished job"),
    ("FrontEndDown", "the cluster's front end does not respond"),
    ("InactiveLimit", "it was inactive for too long"),
    (
        "InvalidAccount",
        "the cluster does not know the job's account",
    ),
    (
        "InvalidQOS",
        "the cluster does not know the job's quality of service",
    ),
    (
        "JobHeldAdmin",
        "the cluster's administrator has put the job on hold",
    ),
    ("JobHeldUser", "the job's owner has put it on hold"),
    ("JobLaunchFailure", "its node could not start it"),
    ("Licenses", "no licence is free"),
    ("None", "not yet considered by the scheduler"),
    ("NodeDown", "a node that it needs is down"),
    (
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
        "the nodes that it needs are down, drained or reserved",
    ),
    ("PartitionDown", "its partition is down"),
    (
        "PartitionInactive",
        "its partition accepts no jobs at present",
    ),
    (
        "PartitionNodeLimit",
        "its partition does not allow its number of nodes, or these nodes are down or drained",
    ),
    (
        "PartitionTimeLimit",
        "it may run for longer than its partition allows",
    ),
    ("Priority", "other jobs have higher priority"),
    ("Prolog", "its node is being prepared"),
    (
        "QOSNotAllowed",
        "its partition does not allow its quality of service",
    ),
    ("ReqNodeNotAvail", "a node that it needs is not available"),
    ("Reservation", "its reservation has not started"),
    ("ReservationDeleted", "its reservation was deleted"),
    ("Resources", "no node has free resources"),
    ("SchedDefer", "the cluster is not starting jobs at present"),
    ("SystemFailure", "cluster failure"),
    (
        "WaitingForScheduling",
        "not yet considered by the scheduler",
    ),
];

/// Prefixes of codes for limits, each with the text for the limit's owner.
const OWNERS: &[(&str, &str)] = &[
    ("Assoc", "of its account"),
    ("QOS", "of its quality of service"),
    ("Partition", "of its partition"),
];

/// Parts of codes for limits, each with the text for the limited resource. The first matching entry determines the
/// text.
const COUNTED: &[(&str, &str)] = &[
    ("GRES", "GPUs"),
    ("Cpu", "processors"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("License", "licences"),
    ("WallDuration", "time"),
    ("TimeLimit", "time"),
    ("SubmitJob", "submitted jobs"),
    ("Jobs", "jobs"),
];

/// Explains to the session's owner why a job is pending. The text for an unknown code contains the code itself.
pub(super) fn in_words(reason: &str) -> String {
    // Some codes have details after a comma: `ReqNodeNotAvail, UnavailableNodes:edge1`.
    let code = match reason.split_once(", ") {
        Some((code, _)) => code,
        None => reason,
    };
    let known = WORDS.iter().find(|(known, _)| *known == code);
    match known {
        Some((_, words)) => (*words).to_owned(),
        None => of_limit(code).unwrap_or_else(|| format!("Slurm reason {reason}")),
    }
}

/// The kinds of limits, each with its name and the reason why a job waits.
const KINDS: &[(&str, &str, &str)] = &[
    ("Grp", "limit", "reached"),
    ("Max", "limit", "reached"),
    ("Min", "minimum", "not met"),
];

/// Handles `AssocGrpCpuLimit`, `QOSMaxJobsPerUserLimit`, `QOSMinGRES` and about sixty similar codes.
fn of_limit(code: &str) -> Option<String> {
    let (prefix, owner) = OWNERS.iter().find(|(prefix, _)| code.starts_with(prefix))?;
    let rest = &code[prefix.len()..];
    let (_, limit, why) = KINDS.iter().find(|(kind, ..)| rest.starts_with(kind))?;
    let (_, counted) = COUNTED.iter().find(|(word, _)| rest.contains(word))?;
    Some(format!("{limit} {owner} {why}: {counted} ({code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_slurm_become_words() {
        assert_eq!(in_words("Resources"), "no node has free resources");
        assert_eq!(
            in_words("ReqNodeNotAvail, UnavailableNodes:edge1"),
            "a node that it needs is not available"
        );
        assert_eq!(
            in_words("AssocGrpCpuLimit"),
            "limit of its account reached: processors (AssocGrpCpuLimit)"
        );
        assert_eq!(
            in_words("QOSMaxJobsPerUserLimit"),
            "limit of its quality of service reached: jobs (QOSMaxJobsPerUserLimit)"
        );
        assert_eq!(
            in_words("QOSMaxSubmitJobPerUserLimit"),
            "limit of its quality of service reached: submitted jobs (QOSMaxSubmitJobPerUserLimit)"
        );
        assert_eq!(
            in_words("QOSMinGRES"),
            "minimum of its quality of service not met: GPUs (QOSMinGRES)"
        );
        assert_eq!(
            in_words("PartitionTimeLimit"),
            "it may run for longer than its partition allows"
        );
        assert_eq!(in_words("Sunspots"), "Slurm reason Sunspots");
        assert_eq!(in_words(""), "Slurm reason ");
    }
}
