//! The tests of `dashcam-diagnosis` from outside, one binary: a folder is a
//! subject, a file a promise.
#![allow(clippy::expect_used, missing_docs)]

mod changed;
mod divided;
mod made;

/// Which thread held what was waited for, or ended the wait.
mod blockers {
    mod culprits_and_bystanders;
    mod gil_holder_of_the_whole_wait;
    mod holders_by_function_exits_at_wait_ends;
    mod holders_inside_during_the_waits;
    mod holders_whose_request_ends_with_the_wait;
    mod one_wait_has_one_holder;
    mod one_whose_thread_ends_with_its_request;
    mod places_of_threads_and_wakers_without_a_cpu;
    mod recurring_wakers_and_the_programs_own_work;
    mod several_places_wait_for_one;
    mod threads_that_always_run_ended_no_wait;
    mod wakers_from_kernel_records;
}

/// Locks, and notices by conditions and events.
mod locks {
    mod condition_variables_of_native_code;
    mod files_named_like_the_interpreters_own;
    mod locks_by_hand_and_late_cpus;
    mod locks_of_libraries_that_tasks_await;
    mod locks_of_the_interpreters_library;
    mod locks_that_are_asked_for_again_and_again;
    mod notices_and_chains_of_blockers;
    mod notices_that_never_come;
    mod waiters_for_the_same_are_counted;
}

/// Pools, queues and the workers behind them.
mod pools {
    mod peers_that_are_not_late;
    mod pools_not_given_back_and_imports;
    mod queues_behind_one_worker;
    mod queues_that_a_thread_works_off;
    mod requests_handed_over_for_good;
    mod requests_in_line_behind_a_slow_one;
    mod retries_leaks_and_rare_samples;
    mod workers_kept_by_clients;
    mod workers_kept_while_nobody_polled;
}

/// Tasks of event loops and of native runtimes.
mod tasks {
    mod awaits_that_outlast_what_kept_the_loop;
    mod awaits_with_exact_times;
    mod futures_fulfilled_by_threads;
    mod loops_that_wait_and_modules_that_load;
    mod native_async_runtimes;
    mod native_tasks_by_their_wakers;
    mod requests_whose_tasks_were_not_seen;
    mod tasks_of_a_server_beside_the_handlers;
    mod threads_that_libraries_call_for_tasks;
    mod wakers_of_suspended_tasks;
}

/// The place of a finding: whose code it is, and what it is called.
mod places {
    mod callers_of_libraries_and_helpers;
    mod calls_in_a_loop_and_holders_of_pools;
    mod calls_to_other_services_are_quoted;
    mod installed_applications_are_user_code;
    mod libraries_carry_what_the_program_asked_for;
    mod place_and_path_of_a_finding;
    mod threads_of_native_libraries;
    mod waits_of_unseen_services_have_their_right_names;
    mod what_is_reported_of_a_place_happened_there;
}

/// What samples and records say, and what they leave open.
mod records {
    mod a_child_that_has_not_run_its_program;
    mod a_mapped_file_is_read_page_by_page;
    mod many_short_waits_are_explained_by_samples_of_one;
    mod one_request_that_stands_for_several;
    mod paused_switch_records_are_not_running;
    mod short_runs_amid_calls_on_files;
    mod unsampled_waits_of_normal_requests;
    mod what_one_sample_is_valid_for;
    mod work_on_a_crowded_machine;
}

/// The verdict as a whole, and its lines.
mod verdict {
    mod a_verdict_is_a_pure_function_of_the_capture;
    mod lines_of_source_at_a_terminal;
    mod other_names_or_lost_records_change_no_verdict;
    mod what_a_verdict_reports_beside_its_cause;
}

/// The code against its pages and lists.
mod pages {
    mod each_cause_has_a_file_that_says_what_it_takes;
    mod numbers_that_decide_are_thresholds;
    mod the_ids_of_explanations_are_on_their_page;
    mod the_json_of_a_verdict_has_the_names_of_its_page;
    mod the_weights_of_evidence_are_on_their_page;
}
