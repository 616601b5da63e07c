//! What every broker must do, run against each of them, and what Redis must survive.

mod agreement;
mod engine;
mod evictions;
mod hearing;
mod inboxes;
mod invalidation;
mod lineage;
mod logs;
mod outages;
mod permits;
mod presence;
mod pulled;
mod queue;
mod queues;
mod tallies;

use feedline_test_support::redis_server;

/// Runs each test against each engine.
macro_rules! conformance {
    ($($group:ident::$test:ident,)*) => {
        mod memory {
            $(#[tokio::test] async fn $test() { crate::$group::$test(crate::engine::Engine::memory()).await; })*
        }
        mod redis {
            $(#[tokio::test] async fn $test() { crate::$group::$test(crate::engine::Engine::redis().await).await; })*
        }
    };
}

conformance! {
    logs::offsets_are_contiguous_and_the_epoch_stays,
    logs::a_position_taken_before_the_first_entry_is_recoverable,
    logs::dropped_logs_hold_nothing_of_what_they_held,
    logs::a_dropped_log_does_not_come_back_under_its_epoch,
    logs::many_positions_at_once_create_nothing,
    logs::channels_that_nothing_was_written_to_cost_nothing,
    logs::a_forgotten_log_is_not_mistaken_for_the_next,
    logs::a_trimmed_log_keeps_what_it_must,
    logs::the_position_outlives_the_entries,
    logs::an_idempotency_key_writes_once,
    logs::an_older_version_is_not_written,
    logs::a_log_is_read_from_either_end,
    logs::any_channel_name_works,
    presence::clients_come_go_and_expire,
    presence::users_are_counted_once,
    presence::a_large_channel_is_not_read_as_a_whole,
    presence::expired_clients_are_removed_a_few_at_a_time,
    hearing::hints_arrive_in_order_with_their_positions,
    hearing::only_what_was_subscribed_is_heard,
    hearing::what_is_published_is_in_no_log,
    hearing::notices_and_signals_arrive,
    tallies::an_older_tally_never_overwrites_a_newer_one,
    tallies::it_is_said_whether_anybody_looks_at_an_object,
    permits::a_bucket_is_taken_from_and_refills,
    permits::a_look_takes_nothing,
    permits::buckets_are_apart_and_nobody_gets_more_by_asking_at_once,
    tallies::a_change_that_was_not_appended_is_not_taken_for_none,
    tallies::a_late_tally_does_not_bring_an_epoch_back,
    hearing::whoever_is_listened_to_is_connected,
    inboxes::an_absent_inbox_takes_nothing,
    inboxes::an_inbox_is_filled_once,
    inboxes::what_is_fanned_out_while_it_fills_is_there_once,
    inboxes::a_post_that_went_while_it_fills_stays_away,
    inboxes::a_post_reaches_an_inbox_once,
    inboxes::a_post_comes_back_unless_deleted,
    inboxes::edits_and_removals_are_written_wherever_the_post_is,
    inboxes::an_edit_does_not_show_that_an_inbox_holds_the_post,
    inboxes::many_edits_do_not_lose_a_post,
    inboxes::later_attempts_know_the_pages_of_earlier_ones,
    inboxes::attempts_belong_to_one_incarnation_of_the_ledger,
    inboxes::inboxes_are_searched_only_if_something_else_came_meanwhile,
    inboxes::merged_posts_are_added_once_and_heard,
    inboxes::purged_posts_are_gone_and_heard,
    inboxes::a_change_of_nothing_leaves_an_overgrown_inbox_as_it_is,
    inboxes::an_inbox_stays_bounded_and_says_what_it_forgot,
    inboxes::an_idle_inbox_goes,
    inboxes::opened_by_many_at_once_there_is_one,
    inboxes::data_is_refused,
    lineage::a_ledger_that_fell_behind_is_told_from_the_same_one,
    lineage::what_belongs_to_another_incarnation_counts_as_lost,
    pulled::an_inbox_takes_an_entry_of_the_log_once,
    pulled::a_pulled_post_that_came_otherwise_is_there_once,
    pulled::an_inbox_is_brought_up_to_a_mark,
    pulled::an_inbox_that_is_brought_much_stays_bounded,
    pulled::the_fill_that_counts_says_up_to_which_mark_it_reaches,
}

/// Runs each test against each kind of queue.
macro_rules! queue_conformance {
    ($($test:ident,)*) => {
        mod queue_in_files {
            $(#[tokio::test] async fn $test() { crate::queue::$test(crate::queues::Kind::files()).await; })*
        }
        mod queue_in_redis {
            $(#[tokio::test] async fn $test() { crate::queue::$test(crate::queues::Kind::redis()).await; })*
        }
    };
}

queue_conformance! {
    what_is_enqueued_waits_in_order_until_it_is_trimmed,
    a_full_queue_takes_what_fits_and_says_so,
    what_waits_survives_a_restart,
    a_lost_queue_begins_another_life,
}
