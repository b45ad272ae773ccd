//! The facts that hold for every store, each run on every backend.
//!
//! A fact is a function that gets a fresh [`World`] and says by its name what is true. It is listed
//! here once; one that is not listed is dead code, and the compiler says so.

mod arriving;
mod cancelling;
mod claiming;
mod copying;
mod deleting;
mod keeping;
mod listening;
mod looking;
mod recording;
mod redriving;
mod sweeping;
mod taking;

use std::time::Duration;

use crate::backend::{Backend, Clock};
use crate::world::World;

/// A fact that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn check<F: Future<Output = ()>>(
    backend: impl FnOnce(&Clock) -> Backend,
    fact: impl FnOnce(World) -> F,
) {
    let checked = async { fact(World::new(backend).await).await };
    tokio::time::timeout(PATIENCE, checked).await.expect("the fact does not come to an end");
}

/// Whether there is what a backend needs.
pub(crate) fn is_there(backend: &str) -> bool {
    match backend {
        "postgres" => crate::postgres::is_there(),
        "postgres_pooled" => crate::postgres::is_pooled(),
        "redis" | "redis_cluster" => crate::redis::is_there(),
        _ => true,
    }
}

macro_rules! facts {
    ($($about:ident { $($fact:ident)+ })+) => {
        facts! { @on memory $($about { $($fact)+ })+ }
        facts! { @on sqlite $($about { $($fact)+ })+ }
        facts! { @on sqlite_with_little_memory $($about { $($fact)+ })+ }
        facts! { @on postgres $($about { $($fact)+ })+ }
        facts! { @on postgres_pooled $($about { $($fact)+ })+ }
        facts! { @on redis $($about { $($fact)+ })+ }
        facts! { @on redis_cluster $($about { $($fact)+ })+ }
    };
    (@on $backend:ident $($about:ident { $($fact:ident)+ })+) => {
        mod $backend {$(
            mod $about {$(
                #[tokio::test]
                async fn $fact() {
                    use crate::{backend::Backend, contract};
                    if !contract::is_there(stringify!($backend)) {
                        return;
                    }
                    contract::check(Backend::$backend, contract::$about::$fact).await;
                }
            )+}
        )+}
    };
}

facts! {
    taking {
        a_task_is_kept_as_it_was_given
        a_request_without_anything_is_kept_too
        every_reason_to_repeat_is_kept
        a_first_attempt_is_due_when_it_was_asked_for
        a_time_that_has_passed_is_now
        a_deadline_counts_from_the_first_due_time
        a_repeated_key_is_the_same_task
        a_key_with_other_content_stores_nothing
        a_batch_is_stored_whole_or_not_at_all
        a_refused_batch_can_be_sent_again_without_its_conflict
        a_repetition_within_a_batch_is_the_same_task
        a_conflict_within_a_batch_stores_nothing
        a_key_is_its_tenants
        tasks_without_a_key_are_never_the_same
        an_empty_batch_is_answered_with_nothing
        ids_grow_and_tell_when_a_task_was_stored
        an_id_is_never_given_twice
        a_task_is_found_by_its_key
        a_key_stays_taken_when_its_task_has_ended
        a_key_is_free_again_when_its_task_is_deleted
    }
    claiming {
        nothing_is_claimed_before_its_time
        what_is_wanted_ahead_is_claimed_ahead_and_no_more
        what_was_claimed_ahead_and_lost_began_no_earlier_than_it_was_due
        no_retry_is_claimed_before_its_time
        a_claim_counts_the_attempt_before_anything_is_sent
        a_claim_brings_everything_that_the_attempt_needs
        a_claimed_task_is_nobody_elses
        claims_at_the_same_time_share_nothing
        a_claim_whose_caller_has_gone_loses_no_task
        tasks_are_claimed_in_order_of_due_time
        tasks_due_together_are_claimed_in_order_of_storing
        retries_are_claimed_in_order_of_due_time
        a_claim_takes_no_more_than_was_wanted
        retries_do_not_stand_behind_first_attempts
        lanes_have_lines_of_their_own
        wants_are_answered_in_order
        a_lane_that_nobody_knows_has_nothing_due
        the_next_due_time_is_told_with_the_claim
        what_was_called_off_is_not_next
        what_has_reached_its_deadline_is_neither_claimed_nor_next
        a_lease_lasts_as_long_as_the_policy_says
        tokens_grow
        every_attempt_sends_the_same_bytes_under_the_same_key
    }
    recording {
        a_delivered_task_has_ended
        a_retry_waits_with_what_it_remembers
        a_retry_moves_neither_its_start_nor_its_deadline
        a_task_that_gave_up_is_kept_with_everything
        every_reason_to_give_up_is_kept
        every_kind_of_failure_is_kept
        a_row_comes_back_as_it_was_written
        a_stale_owner_changes_nothing
        a_record_is_written_once
        a_lease_that_ran_out_writes_until_it_is_taken_over
        a_record_about_a_deleted_task_is_stale
        a_stale_record_holds_up_no_other
        an_attempt_without_an_answer_leaves_the_last_status
        a_retry_may_be_due_at_any_time
        attempt_rows_are_contiguous_lost_ones_included
    }
    sweeping {
        a_lost_attempt_is_taken_over_when_its_lease_ends
        a_lost_attempt_has_been_spent
        a_lost_retry_keeps_its_past
        who_takes_over_and_dies_is_taken_over_from
        a_deadline_ends_a_task_that_its_lane_holds_back
        a_passed_deadline_counts_no_attempt
        a_deadline_taken_over_twice_is_still_no_attempt
        a_deadline_in_the_future_is_swept_when_it_comes
        an_attempt_under_way_may_outlast_the_deadline
        a_sweep_takes_no_more_than_it_was_asked_to
        what_has_ended_is_never_swept
        a_restart_ends_every_lease
    }
    cancelling {
        a_cancelled_task_is_never_claimed
        a_cancelled_task_stays_cancelled_after_a_restart
        an_attempt_under_way_is_cancelled_instead_of_repeated
        an_attempt_that_delivers_wins_over_the_wish_to_cancel
        an_attempt_that_gives_up_is_a_dead_letter_all_the_same
        the_wish_to_cancel_outlives_the_attempt
        what_has_ended_cannot_be_called_off
        what_is_not_there_cannot_be_called_off
    }
    redriving {
        a_redriven_task_keeps_key_policy_and_payload
        a_redriven_task_starts_over
        a_redriven_task_forgets_its_past
        a_redrive_can_be_delayed
        a_redrive_can_bring_its_own_policy_and_time
        only_dead_letters_are_redriven
        a_dead_letter_is_redriven_once
        attempts_of_all_generations_stay_in_the_log
        a_redrive_forgets_the_wish_to_cancel
        a_redrive_survives_a_restart
        an_owner_of_an_earlier_generation_changes_nothing
    }
    deleting {
        only_what_has_ended_is_purged
        a_purge_takes_the_attempts_along
        what_was_purged_stays_away_after_a_restart
        retention_deletes_in_chunks_and_never_what_is_live
        retention_counts_from_the_end_of_the_task
        dead_letters_are_kept_for_a_time_of_their_own
        old_rows_of_a_live_task_are_deleted_and_the_task_is_not
        a_redriven_task_is_live_again
    }
    looking {
        tenants_do_not_see_each_other
        tenants_do_not_touch_each_other
        pages_join_up_to_the_whole_latest_first
        a_list_is_without_bodies
        what_comes_between_two_pages_moves_nothing
        a_list_is_narrowed_by_state
        a_list_is_narrowed_by_lane_and_policy
        a_list_is_narrowed_by_the_time_of_storing
        a_list_is_narrowed_by_the_reason
        counts_tell_where_tasks_are
        counts_follow_every_change
        a_starting_service_learns_what_waits
    }
    keeping {
        a_policy_gets_a_version_for_each_document
        the_same_document_is_the_same_version
        policies_are_listed_by_id_and_version
        a_deleted_policy_comes_back_as_a_new_version
        a_task_keeps_its_deleted_policy
        a_policy_that_is_not_there_is_not_found
        a_long_lease_is_kept_to_the_nanosecond
        a_lane_is_opened_once
        what_people_set_on_a_lane_stays
        budgets_and_breakers_remember_over_a_restart
        a_breaker_is_changed_only_by_who_has_seen_its_last_change
        breakers_are_swapped_each_for_itself
        the_only_node_has_everything_to_itself
        everything_is_there_after_a_restart
        a_repeated_key_is_the_same_task_after_a_restart
        a_store_can_be_opened_many_times
        the_time_never_goes_back
        a_closed_store_says_so
    }
    listening {
        a_new_task_is_told
        a_scheduled_task_is_told
        an_earlier_task_than_the_next_is_told
        a_task_after_an_empty_claim_is_told
        a_retry_is_told
        a_redrive_is_told
        a_lost_attempt_that_is_to_be_repeated_is_told
        a_restarted_service_is_told_too
        what_is_told_can_be_claimed
        whoever_is_told_may_use_the_store
    }
    copying {
        everything_is_copied_as_it_was
        what_was_copied_goes_on_where_it_was
        what_was_copied_outlives_a_restart
        a_copy_can_be_repeated
        what_is_in_the_way_is_refused
        large_bodies_come_a_few_at_a_time
        nobody_is_at_work_on_a_store_that_nobody_uses
        whoever_works_on_a_shared_store_is_counted
    }
    arriving {
        an_id_from_elsewhere_is_as_good_as_an_own_one
        an_attempt_from_elsewhere_is_taken_over_and_written
        a_dead_letter_from_elsewhere_is_redriven
        tasks_from_elsewhere_are_found_and_listed
        tasks_from_elsewhere_are_found_by_who_opens_the_store_afterwards
        an_id_from_elsewhere_is_not_given_again
        retention_goes_by_the_end_and_not_by_the_id
        rows_from_elsewhere_are_deleted_by_their_time
        an_id_that_is_anothers_is_refused
    }
}
