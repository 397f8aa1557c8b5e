//! Why a job waits: the codes of squeue(1), section "JOB REASON CODES", in words for a player.

/// The codes and their words. Those that end in `Limit` or speak of limits of an account, a quality of service or an
/// association are found by [`of_limit`].
const WORDS: &[(&str, &str)] = &[
    (
        "AccountNotAllowed",
        "this partition does not take jobs of this account",
    ),
    (
        "BadConstraints",
        "no node of the cluster has what the application needs",
    ),
    ("BeginTime", "its start time has not come"),
    (
        "Cleaning",
        "the cluster still cleans up after its last start",
    ),
    (
        "DependencyNeverSatisfied",
        "it depends on a job that has failed",
    ),
    ("Dependency", "it depends on a job that has not ended"),
    ("FrontEndDown", "the cluster's front end does not answer"),
    ("InactiveLimit", "it was inactive for too long"),
    ("InvalidAccount", "the cluster does not know its account"),
    (
        "InvalidQOS",
        "the cluster does not know its quality of service",
    ),
    ("JobHeldAdmin", "the cluster's administrator holds it"),
    ("JobHeldUser", "its owner holds it"),
    ("JobLaunchFailure", "its node could not start it"),
    ("Licenses", "no licence is free"),
    ("None", "the cluster has not looked at it yet"),
    ("NodeDown", "a node that it needs is down"),
    (
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
        "the nodes that it needs are down, drained or reserved",
    ),
    ("PartitionDown", "its partition is down"),
    (
        "PartitionInactive",
        "its partition takes no jobs at present",
    ),
    (
        "PartitionNodeLimit",
        "it needs more nodes than its partition allows",
    ),
    (
        "PartitionTimeLimit",
        "it may run for longer than its partition allows",
    ),
    ("Priority", "other jobs are before it"),
    ("Prolog", "its node is being prepared"),
    (
        "QOSNotAllowed",
        "its quality of service is not allowed there",
    ),
    (
        "ReqNodeNotAvail",
        "a node that it needs is down, drained or reserved",
    ),
    ("Reservation", "its reservation has not begun"),
    ("ReservationDeleted", "its reservation was deleted"),
    ("Resources", "no node has room for it"),
    (
        "SchedDefer",
        "the cluster starts no jobs at once at present",
    ),
    ("SystemFailure", "the cluster had a failure"),
    (
        "WaitingForScheduling",
        "the cluster has not looked at it yet",
    ),
];

/// What a limit is set on, by the beginning of its code.
const OWNERS: &[(&str, &str)] = &[
    ("Assoc", "of its account"),
    ("QOS", "of its quality of service"),
    ("Partition", "of its partition"),
];

/// What a limit counts, by what its code holds; the first that fits.
const COUNTED: &[(&str, &str)] = &[
    ("GRES", "GPUs"),
    ("Cpu", "processors"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("License", "licences"),
    ("WallDuration", "time"),
    ("TimeLimit", "time"),
    ("Jobs", "jobs"),
    ("SubmitJobs", "jobs"),
];

/// Why a job waits, for the person whose session it is; an unknown code as it is.
pub(super) fn in_words(reason: &str) -> String {
    // Some codes carry detail behind a comma: `ReqNodeNotAvail, UnavailableNodes:edge1`.
    let code = match reason.split_once(", ") {
        Some((code, _)) => code,
        None => reason,
    };
    let known = WORDS.iter().find(|(known, _)| *known == code);
    match known {
        Some((_, words)) => (*words).to_owned(),
        None => of_limit(code).unwrap_or_else(|| format!("the cluster says {reason}")),
    }
}

/// `AssocGrpCpuLimit`, `QOSMaxJobsPerUserLimit`, `PartitionMaxMemPerNode` and some sixty more of their kind.
fn of_limit(code: &str) -> Option<String> {
    let (prefix, owner) = OWNERS.iter().find(|(prefix, _)| code.starts_with(prefix))?;
    let rest = &code[prefix.len()..];
    let counts = ["Grp", "Max", "Min"]
        .iter()
        .any(|kind| rest.starts_with(kind));
    let (_, counted) = COUNTED.iter().find(|(word, _)| rest.contains(word))?;
    counts.then(|| format!("the limit {owner} is reached: {counted} ({code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_slurm_become_words() {
        assert_eq!(in_words("Resources"), "no node has room for it");
        assert_eq!(
            in_words("ReqNodeNotAvail, UnavailableNodes:edge1"),
            "a node that it needs is down, drained or reserved"
        );
        assert_eq!(
            in_words("AssocGrpCpuLimit"),
            "the limit of its account is reached: processors (AssocGrpCpuLimit)"
        );
        assert_eq!(
            in_words("QOSMaxJobsPerUserLimit"),
            "the limit of its quality of service is reached: jobs (QOSMaxJobsPerUserLimit)"
        );
        assert_eq!(
            in_words("PartitionTimeLimit"),
            "it may run for longer than its partition allows"
        );
        assert_eq!(in_words("Sunspots"), "the cluster says Sunspots");
        assert_eq!(in_words(""), "the cluster says ");
    }
}
