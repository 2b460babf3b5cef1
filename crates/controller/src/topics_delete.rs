//! DeleteTopics in all versions: by name, since version 6 also by id.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base::{TopicId, Uuid};
use wire::ErrorCode;
use wire::delete_topics_request::DeleteTopicsRequest;
use wire::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use wire::remove_topic_record::RemoveTopicRecord;

use crate::controller::{Controller, Decision, RECORDS_PER_REQUEST_MAX};
use crate::elections::too_many_changes;
use crate::error::ApiError;

/// First version with an error code for switched off deletion.
const DELETION_DISABLED_FROM: i16 = 3;

/// What a request names, duplicates set apart.
#[derive(Default)]
struct Named<'r> {
    names: BTreeSet<Cow<'r, str>>,
    repeated_names: BTreeSet<Cow<'r, str>>,
    ids: BTreeSet<TopicId>,
    repeated_ids: BTreeSet<TopicId>,
}

impl<'r> Named<'r> {
    fn add_name(&mut self, name: Cow<'r, str>) {
        if self.repeated_names.contains(&name) || !self.names.insert(name.clone()) {
            self.names.remove(&name);
            self.repeated_names.insert(name);
        }
    }

    fn add_id(&mut self, id: TopicId) {
        if self.repeated_ids.contains(&id) || !self.ids.insert(id) {
            self.ids.remove(&id);
            self.repeated_ids.insert(id);
        }
    }
}

impl Controller {
    /// DeleteTopics.
    pub(crate) fn delete_topics<'r>(
        &mut self,
        version: i16,
        request: &DeleteTopicsRequest<'r>,
    ) -> Result<Decision<DeleteTopicsResponse<'r>>, ApiError> {
        if !self.layered().current.topics.delete_enable {
            return Err(match version {
                DELETION_DISABLED_FROM.. => ApiError::bare(ErrorCode::TOPIC_DELETION_DISABLED),
                _ => ApiError::new(ErrorCode::INVALID_REQUEST, "Topic deletion is disabled."),
            });
        }
        let mut responses = Vec::new();
        let named = collect(request, &mut responses);
        let repeated = |what: &str| ApiError::new(ErrorCode::INVALID_REQUEST, format!("Duplicate topic {what}."));
        let names = named.repeated_names.iter();
        responses.extend(names.map(|name| failed(Some(name.clone()), Uuid::ZERO, repeated("name"))));
        responses.extend(named.repeated_ids.iter().map(|id| failed(None, *id, repeated("id"))));
        let found = self.find_topics(named, &mut responses);
        if found.len() > RECORDS_PER_REQUEST_MAX {
            return Err(too_many_changes());
        }
        let mut records = Vec::with_capacity(found.len());
        for (topic_id, name) in found {
            records.push((RemoveTopicRecord { topic_id }.into(), 0));
            responses.push(DeletableTopicResult { name: Some(name), topic_id, ..DeletableTopicResult::default() });
        }
        Ok(Decision::new(records, DeleteTopicsResponse { throttle_time_ms: 0, responses }))
    }

    /// Topics by id that are to go, with their names; what cannot be found is answered.
    fn find_topics<'r>(
        &self,
        named: Named<'r>,
        responses: &mut Vec<DeletableTopicResult<'r>>,
    ) -> BTreeMap<TopicId, Cow<'r, str>> {
        let topics = &self.image().topics;
        let mut found = BTreeMap::new();
        let mut repeated_ids = named.repeated_ids;
        for id in named.ids {
            match topics.by_id(id) {
                Some(topic) => {
                    found.insert(id, Cow::Owned(topic.name.to_string()));
                }
                None => responses.push(failed(None, id, ApiError::usual(ErrorCode::UNKNOWN_TOPIC_ID))),
            }
        }
        for name in named.names {
            let Some(id) = topics.by_name(&name).map(|topic| topic.id) else {
                let error = ApiError::usual(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                responses.push(failed(Some(name), Uuid::ZERO, error));
                continue;
            };
            // The same topic by name and by id is as much a duplicate as twice by name.
            if repeated_ids.contains(&id) || found.insert(id, name.clone()).is_some() {
                repeated_ids.insert(id);
                found.remove(&id);
                let text = "The provided topic name maps to an ID that was already supplied.";
                responses.push(failed(Some(name), id, ApiError::new(ErrorCode::INVALID_REQUEST, text)));
            }
        }
        found
    }
}

fn collect<'r>(request: &DeleteTopicsRequest<'r>, responses: &mut Vec<DeletableTopicResult<'r>>) -> Named<'r> {
    let mut named = Named::default();
    request.topic_names.iter().for_each(|name| named.add_name(name.clone()));
    for topic in &request.topics {
        let invalid = |text| ApiError::new(ErrorCode::INVALID_REQUEST, text);
        match (&topic.name, topic.topic_id.is_zero()) {
            (None, true) => {
                responses.push(failed(None, Uuid::ZERO, invalid("Neither topic name nor id were specified.")));
            }
            (None, false) => named.add_id(topic.topic_id),
            (Some(name), true) => named.add_name(name.clone()),
            (Some(name), false) => {
                let error = invalid("You may not specify both topic name and topic id.");
                responses.push(failed(Some(name.clone()), topic.topic_id, error));
            }
        }
    }
    named
}

fn failed<'r>(name: Option<Cow<'r, str>>, topic_id: TopicId, error: ApiError) -> DeletableTopicResult<'r> {
    DeletableTopicResult { name, topic_id, error_code: error.code(), error_message: error.message }
}
