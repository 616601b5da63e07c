//! The conformance tests of every broker, and the failures that the Redis broker must survive.

mod agreement;
mod broadcasts;
mod engine;
mod evictions;
mod expiry;
mod identity;
mod inboxes;
mod invalidation;
mod lineage;
mod logs;
mod node_hints;
mod outages;
mod outlet;
mod own_posts;
mod permits;
mod presence;
mod pubsub;
mod pulled;
mod queue;
mod queues;
mod refusals;
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
    logs::positions_before_the_first_entry_are_recoverable,
    logs::dropped_logs_are_empty,
    logs::dropped_logs_do_not_reuse_their_epoch,
    logs::cleared_logs_keep_their_position,
    logs::position_reads_create_nothing,
    logs::unwritten_channels_use_no_memory,
    logs::expired_logs_are_distinguished_from_new_ones,
    logs::trimmed_logs_keep_exactly_their_size,
    logs::positions_of_readers_outlive_entries,
    logs::readers_notice_entries_that_expired_meanwhile,
    logs::unread_channels_of_the_feed_have_no_log,
    logs::unread_logs_are_forgotten_with_their_entries,
    logs::idempotency_keys_write_once,
    logs::older_versions_are_not_written,
    broadcasts::broadcasts_append_to_each_channel,
    broadcasts::broadcasts_write_once_for_each_key_and_version,
    broadcasts::broadcasts_reach_subscribers,
    broadcasts::broadcasts_to_an_inbox_are_refused,
    broadcasts::unlogged_broadcasts_reach_each_channel,
    broadcasts::unlogged_broadcasts_publish_once_for_each_key,
    broadcasts::a_failed_channel_does_not_stop_an_unlogged_broadcast,
    broadcasts::a_failed_log_does_not_stop_a_broadcast,
    logs::logs_are_read_from_either_end,
    logs::any_channel_name_works,
    presence::presence_is_added_removed_and_expired,
    presence::presence_counts_users_once,
    presence::presence_of_large_channels_is_read_in_parts,
    presence::expired_presence_is_removed_in_steps,
    pubsub::hints_arrive_in_order_with_their_positions,
    pubsub::only_subscribed_channels_are_delivered,
    pubsub::ephemeral_publications_are_in_no_log,
    pubsub::signals_arrive,
    tallies::older_tallies_do_not_overwrite_newer_ones,
    tallies::viewed_objects_are_reported,
    permits::buckets_are_taken_from_and_refilled,
    permits::peeks_take_nothing,
    permits::buckets_are_independent_under_concurrency,
    tallies::failed_appends_are_reported,
    tallies::late_tallies_do_not_restore_an_epoch,
    pubsub::listened_users_are_connected,
    inboxes::absent_inboxes_take_no_entries,
    inboxes::inboxes_are_filled_once,
    inboxes::posts_fanned_out_during_a_fill_appear_once,
    inboxes::posts_removed_during_a_fill_stay_removed,
    inboxes::posts_reach_an_inbox_once,
    inboxes::posts_return_unless_deleted,
    inboxes::edits_and_removals_reach_every_inbox_of_the_post,
    inboxes::edits_do_not_reveal_membership,
    inboxes::many_edits_keep_the_post,
    inboxes::later_attempts_skip_completed_pages,
    inboxes::attempts_are_scoped_to_a_ledger_incarnation,
    inboxes::inboxes_are_scanned_only_after_other_writes,
    inboxes::merged_posts_are_added_once_and_pushed,
    own_posts::own_posts_are_added_once,
    inboxes::purged_posts_are_removed_and_pushed,
    inboxes::empty_changes_leave_oversized_inboxes_unchanged,
    inboxes::inboxes_are_bounded_and_report_what_they_drop,
    inboxes::idle_inboxes_expire,
    inboxes::idle_inboxes_of_lists_expire,
    inboxes::concurrent_opens_create_one_inbox,
    inboxes::invalid_data_is_rejected,
    lineage::restored_ledgers_are_detected,
    lineage::entries_of_another_incarnation_count_as_lost,
    pulled::log_entries_are_applied_once,
    pulled::posts_pulled_and_pushed_appear_once,
    pulled::inboxes_catch_up_to_a_position,
    pulled::inboxes_stay_bounded_during_catch_up,
    pulled::the_winning_fill_reports_its_position,
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
    entries_wait_in_order_until_trimmed,
    full_queues_accept_what_fits,
    waiting_entries_survive_a_restart,
    lost_queues_start_a_new_epoch,
}
