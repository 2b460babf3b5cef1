use std::fmt::Write as _;

use base::Uuid;
use serde_json::Value;
use thiserror::Error;

/// What a replica must remember about elections, the content of the file `quorum-state`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElectionState {
    /// The term.
    pub epoch: i32,
    /// The leader of the term, once known.
    pub leader_id: Option<i32>,
    /// Whom this replica gave its vote in the term.
    pub voted: Option<(i32, Uuid)>,
    /// Ids of the voters; kept in version 0 only.
    pub voters: Vec<i32>,
}

/// The file `quorum-state` says something this software does not understand.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ElectionStateError {
    /// Not a JSON object.
    #[error("quorum-state is not a JSON object: {0}")]
    Syntax(String),
    /// A field is missing or has the wrong type.
    #[error("quorum-state: the field {0} is missing or not of its type")]
    Field(&'static str),
    /// A `data_version` from the future.
    #[error("quorum-state: data_version {0} is not one of 0 and 1")]
    Version(i64),
}

impl ElectionState {
    /// The content of the file in `version` 0 (`kraft.version` 0) or 1.
    pub fn encode(&self, version: i16) -> String {
        let leader = self.leader_id.unwrap_or(-1);
        let (voted, directory) = self.voted.unwrap_or((-1, Uuid::ZERO));
        if version == 0 {
            let mut voters = String::new();
            for (i, id) in self.voters.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                write!(voters, "{comma}{{\"voterId\":{id}}}").expect("writing to a string");
            }
            // The cluster id is written empty by every Kafka, and nothing reads it.
            format!(
                "{{\"clusterId\":\"\",\"leaderId\":{leader},\"leaderEpoch\":{},\"votedId\":{voted},\
                 \"appliedOffset\":0,\"currentVoters\":[{voters}],\"data_version\":0}}",
                self.epoch
            )
        } else {
            format!(
                "{{\"leaderId\":{leader},\"leaderEpoch\":{},\"votedId\":{voted},\
                 \"votedDirectoryId\":\"{directory}\",\"data_version\":1}}",
                self.epoch
            )
        }
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// When it is not a `quorum-state` of version 0 or 1.
    pub fn decode(text: &str) -> Result<ElectionState, ElectionStateError> {
        // The object is the first line; what follows it is not looked at.
        let line = text.lines().next().unwrap_or("");
        let value: Value = serde_json::from_str(line).map_err(|error| ElectionStateError::Syntax(error.to_string()))?;
        if !value.is_object() {
            return Err(ElectionStateError::Syntax("another JSON value".to_owned()));
        }
        let version = value["data_version"].as_i64().ok_or(ElectionStateError::Field("data_version"))?;
        if !(0..=1).contains(&version) {
            return Err(ElectionStateError::Version(version));
        }
        let epoch = int(&value, "leaderEpoch")?;
        let leader = int(&value, "leaderId")?;
        let voted = int(&value, "votedId")?;
        let mut voters = Vec::new();
        let mut directory = Uuid::ZERO;
        if version == 0 {
            for voter in value["currentVoters"].as_array().map(Vec::as_slice).unwrap_or_default() {
                voters.push(int(voter, "voterId")?);
            }
        } else if let Some(text) = value["votedDirectoryId"].as_str() {
            directory = text.parse().map_err(|_| ElectionStateError::Field("votedDirectoryId"))?;
        }
        Ok(ElectionState {
            epoch,
            leader_id: (leader >= 0).then_some(leader),
            voted: (voted >= 0).then_some((voted, directory)),
            voters,
        })
    }
}

fn int(value: &Value, name: &'static str) -> Result<i32, ElectionStateError> {
    value[name].as_i64().and_then(|n| i32::try_from(n).ok()).ok_or(ElectionStateError::Field(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_written_as_kafka_does() {
        let elected = ElectionState { epoch: 1, leader_id: Some(1), voted: None, voters: vec![1] };
        assert_eq!(
            elected.encode(0),
            r#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#
        );
        assert_eq!(
            elected.encode(1),
            r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = Uuid::from_u128(77);
        let voted = ElectionState { epoch: 5, leader_id: None, voted: Some((3, directory)), voters: vec![] };
        assert_eq!(ElectionState::decode(&voted.encode(1)), Ok(voted.clone()));
        let voted = ElectionState { voted: Some((3, Uuid::ZERO)), voters: vec![1, 2, 3], ..voted };
        assert_eq!(ElectionState::decode(&voted.encode(0)), Ok(voted));
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, error) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "data_version"),
            (r#"{"data_version":2}"#, "data_version 2"),
            (r#"{"data_version":1,"leaderEpoch":1,"leaderId":"x","votedId":-1}"#, "leaderId"),
            (r#"{"data_version":1,"leaderEpoch":1,"leaderId":99999999999,"votedId":-1}"#, "leaderId"),
            (
                r#"{"data_version":1,"leaderEpoch":1,"leaderId":1,"votedId":2,"votedDirectoryId":"!"}"#,
                "votedDirectoryId",
            ),
        ] {
            let found = ElectionState::decode(text).expect_err(text).to_string();
            assert!(found.contains(error), "{text:?} gave {found:?}");
        }
    }
}
