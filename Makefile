# cellbatch: build, tests and checks. `make help` lists the targets.
#
#   make [BUILD=release|debug|asan|ubsan|tsan|cov] [CC=gcc|clang] [ARCH=x86_64|aarch64] [CUDA=0|1]
#        [V=1] [target]
#
# To add a file: put it into its folder's list below. To add a suite: write
# tests/<folder>/test_<module>.c and put it into <FOLDER>_SUITES. Nothing here looks at the machine:
# what a build needs is an input, and packages are installed only by `deps`, which test, demo and
# lint call. pkg-config runs only inside recipes, so reading this file needs nothing but make.

BUILD ?= release
ARCH  ?= x86_64
CUDA  ?= 0
V     ?= 0
SUITE ?=

ifeq ($(origin CC),default)
CC := gcc
endif
IS_CLANG := $(findstring clang,$(notdir $(firstword $(CC))))

# ---- Sources: one file a line ---------------------------------------------------------------

BASE_SRCS = \
  base/arena.c \
  base/assert.c \
  base/buf.c \
  base/build.c \
  base/clock.c \
  base/cpus.c \
  base/event.c \
  base/hash.c \
  base/hist.c \
  base/inbox.c \
  base/log.c \
  base/mem.c \
  base/process.c \
  base/random.c \
  base/ring.c \
  base/status.c \
  base/tiles.c \
  base/utf8.c \

CONFIG_SRCS = \
  config/config.c \
  config/model_config.c \
  config/inputs.c \
  config/option.c \
  config/sources.c \
  config/textproto.c \
  config/triton_config.c \
  config/value.c \
  config/write.c \
  config/yaml.c \

CELLS_SRCS = \
  cells/backend.c \
  cells/backend_library.c \
  cells/beam.c \
  cells/blas/blas.c \
  cells/cache_file.c \
  cells/calibration.c \
  cells/calibration_file.c \
  cells/cpu/ahead.c \
  cells/cpu/apart.c \
  cells/cpu/attend.c \
  cells/cpu/beam.c \
  cells/cpu/beside.c \
  cells/cpu/knee.c \
  cells/cpu/lazy.c \
  cells/cpu/device.c \
  cells/cpu/explain.c \
  cells/cpu/fuse.c \
  cells/cpu/list.c \
  cells/cpu/ops.c \
  cells/cpu/panels.c \
  cells/cpu/patches.c \
  cells/cpu/phases.c \
  cells/cpu/places.c \
  cells/cpu/program.c \
  cells/cpu/reduce.c \
  cells/cpu/reduced.c \
  cells/cpu/repeats.c \
  cells/cpu/rows.c \
  cells/cpu/rowwise.c \
  cells/cpu/convolve.c \
  cells/cpu/filter.c \
  cells/cpu/picture.c \
  cells/cpu/shares.c \
  cells/cpu/run.c \
  cells/cpu/table.c \
  cells/cpu/taking.c \
  cells/cpu/tree.c \
  cells/cpu/waves.c \
  cells/def.c \
  cells/file.c \
  cells/import/assigned.c \
  cells/import/attend_bounds.c \
  cells/import/attend_relative.c \
  cells/import/attention.c \
  cells/import/attr.c \
  cells/import/band.c \
  cells/import/behind.c \
  cells/import/build.c \
  cells/import/einsum.c \
  cells/import/external.c \
  cells/import/feed_back.c \
  cells/import/fold.c \
  cells/import/fold_floats.c \
  cells/import/fold_math.c \
  cells/import/graph.c \
  cells/import/import.c \
  cells/import/joined.c \
  cells/import/interpolate.c \
  cells/import/layer_recurrent.c \
  cells/import/layer_tensors.c \
  cells/import/layers.c \
  cells/import/op_activation.c \
  cells/import/op_attend.c \
  cells/import/op_bands.c \
  cells/import/op_clip.c \
  cells/import/op_compare.c \
  cells/import/op_conv.c \
  cells/import/op_conv_transpose.c \
  cells/import/op_function.c \
  cells/import/op_distance.c \
  cells/import/op_gather.c \
  cells/import/op_index.c \
  cells/import/op_join.c \
  cells/import/op_layout.c \
  cells/import/op_linear.c \
  cells/import/op_count.c \
  cells/import/op_cumsum.c \
  cells/import/op_ids.c \
  cells/import/op_list.c \
  cells/import/op_loop.c \
  cells/import/op_math.c \
  cells/import/op_norm.c \
  cells/import/op_numbers.c \
  cells/import/op_one_hot.c \
  cells/import/op_pad.c \
  cells/import/op_plane.c \
  cells/import/op_picture.c \
  cells/import/op_position.c \
  cells/import/op_pool.c \
  cells/import/op_product.c \
  cells/import/op_quantize.c \
  cells/import/op_recurrent.c \
  cells/import/op_reduce.c \
  cells/import/op_resize.c \
  cells/import/op_scan.c \
  cells/import/op_shape.c \
  cells/import/op_slice.c \
  cells/import/op_step.c \
  cells/import/op_top.c \
  cells/import/op_trilu.c \
  cells/import/op_window.c \
  cells/import/operators.c \
  cells/import/recognise.c \
  cells/import/recognise_tree.c \
  cells/import/regroup.c \
  cells/import/relative.c \
  cells/import/replace.c \
  cells/import/reshape.c \
  cells/import/roles.c \
  cells/import/row_elements.c \
  cells/import/row_order.c \
  cells/import/rows.c \
  cells/import/safetensors.c \
  cells/import/select.c \
  cells/import/shape.c \
  cells/import/place.c \
  cells/import/plan.c \
  cells/import/conditions.c \
  cells/import/connect.c \
  cells/import/ctc.c \
  cells/import/scatter.c \
  cells/import/scores.c \
  cells/import/some_steps.c \
  cells/import/sorted.c \
  cells/import/stages.c \
  cells/import/stated.c \
  cells/import/stft.c \
  cells/import/lineage.c \
  cells/import/loop_body.c \
  cells/import/mirror.c \
  cells/import/sym.c \
  cells/import/tensor.c \
  cells/import/tensors.c \
  cells/import/turned.c \
  cells/import/walk.c \
  cells/import/wire.c \
  cells/import/write_out.c \
  cells/import/writer.c \
  cells/kernels.c \
  cells/lane/host.c \
  cells/model.c \
  cells/model_attend.c \
  cells/model_decoder.c \
  cells/model_graph.c \
  cells/model_states.c \
  cells/model_stream.c \
  cells/model_transducer.c \
  cells/model_tree.c \
  cells/op.c \
  cells/op_check.c \
  cells/pack.c \
  cells/quant.c \
  cells/ref/math.c \
  cells/ref/pointwise.c \
  cells/ref/ref.c \
  cells/stream_steps.c \
  cells/transducer.c \
  cells/type.c \
  $(CELLS_SRCS_$(ARCH)) \

# The CUDA device but for its driver: in libcellbatch_cuda.so, and in the tests over a host's driver.
CUDA_DEVICE_SRCS = \
  cells/cuda/choose.c \
  cells/cuda/device.c \
  cells/cuda/lane_pack.c \
  cells/cuda/lane_tasks.c \
  cells/cuda/lanes.c \
  cells/cuda/parts.c \
  cells/cuda/piece.c \
  cells/cuda/plan.c \
  cells/cuda/plan_cells.c \
  cells/cuda/plan_ops.c \
  cells/cuda/plan_products.c \
  cells/cuda/plan_search.c \
  cells/cuda/queue.c \

# The rest of it, and what it needs of base/: the library brings its own, and shows none of it.
CUDA_LIBRARY_SRCS = \
  $(CUDA_DEVICE_SRCS) \
  base/assert.c \
  base/buf.c \
  base/clock.c \
  base/mem.c \
  base/random.c \
  base/status.c \
  base/utf8.c \
  cells/cuda/driver_cuda.c \
  cells/cuda/lane_driver_cuda.c \
  cells/cuda/library.c \
  cells/cuda/products_cuda.c \
  cells/def.c \
  cells/lane/host.c \
  cells/op.c \
  cells/op_check.c \
  cells/pack.c \
  cells/quant.c \
  cells/ref/math.c \

CUDA_KERNELS = \
  cells/cuda/lane__bf16_128.cu \
  cells/cuda/lane__bf16_64.cu \
  cells/cuda/lane__f32_64.cu \
  cells/cuda/step_kernels.cu \

# Kernels of one architecture's instruction sets.
CELLS_SRCS_x86_64 = \
  cells/cpu/bf16__avx2.c \
  cells/cpu/bf16__avx512.c \
  cells/cpu/bf16__avx512bf16.c \
  cells/cpu/int8__avx2.c \
  cells/cpu/int8__avx512.c \
  cells/cpu/int8__avx512amx.c \
  cells/cpu/int8__avx512vnni.c \
  cells/cpu/kernels__avx2.c \
  cells/cpu/kernels__avx512.c \

CELLS_SRCS_aarch64 = \
  cells/cpu/bf16__neon.c \
  cells/cpu/int8__neon.c \
  cells/cpu/int8__neondot.c \
  cells/cpu/kernels__neon.c \

SCHEDULER_SRCS = \
  scheduler/admission.c \
  scheduler/dag.c \
  scheduler/follow.c \
  scheduler/form.c \
  scheduler/press.c \
  scheduler/graph.c \
  scheduler/policy.c \
  scheduler/ready.c \
  scheduler/retire.c \
  scheduler/rows.c \
  scheduler/scheduler.c \
  scheduler/unfold.c \
  scheduler/unfold_rows.c \
  scheduler/unfold_graph.c \
  scheduler/unfold_tree.c \

WORKER_SRCS = \
  worker/calibrate.c \
  worker/pool.c \
  worker/team.c \

# Without server/main.c, which is SERVER_MAIN.
SERVER_SRCS = \
  server/about.c \
  server/bpe.c \
  server/labels.c \
  server/batch_rows.c \
  server/calibrate.c \
  server/check_model.c \
  server/control.c \
  server/core.c \
  server/core_metrics.c \
  server/daemon.c \
  server/deadline.c \
  server/device.c \
  server/device_cache.c \
  server/engine.c \
  server/engine_change.c \
  server/engine_models.c \
  server/explain.c \
  server/grpc/batches.c \
  server/grpc/call.c \
  server/grpc/catalog.c \
  server/grpc/codec.c \
  server/grpc/contents.c \
  server/grpc/dialog.c \
  server/grpc/health.c \
  server/grpc/infer.c \
  server/grpc/input.c \
  server/grpc/methods.c \
  server/grpc/models.c \
  server/grpc/order.c \
  server/grpc/parameters.c \
  server/grpc/pool.c \
  server/grpc/reflection.c \
  server/grpc/relay.c \
  server/grpc/reply.c \
  server/grpc/server.c \
  server/grpc/stream.c \
  server/grpc/stream_answer.c \
  server/grpc/watch.c \
  server/grpc/wire.c \
  server/http/connection.c \
  server/http/events.c \
  server/http/exchange.c \
  server/http/certificate.c \
  server/http/handshake.c \
  server/http/json.c \
  server/http/json_cut.c \
  server/http/json_data.c \
  server/http/json_generate.c \
  server/http/json_write.c \
  server/http/listener.c \
  server/http/number.c \
  server/http/pages.c \
  server/http/route.c \
  server/http/server.c \
  server/lines.c \
  server/loop.c \
  server/request.c \
  server/metrics.c \
  server/model_files.c \
  server/orders.c \
  server/plugin.c \
  server/plugin_call.c \
  server/probe.c \
  server/process.c \
  server/process_parts.c \
  server/process_plugin.c \
  server/process_session.c \
  server/process_wait.c \
  server/repository.c \
  server/status.c \
  server/secrets.c \
  server/sentencepiece.c \
  server/sentencepiece_cut.c \
  server/sentencepiece_spell.c \
  server/sessions.c \
  server/signature.c \
  server/tensors.c \
  server/text.c \
  server/text_tree.c \
  server/text_write.c \
  server/tls.c \
  server/tokens.c \
  server/trim.c \
  server/turn.c \
  server/validate.c \
  server/validate_graph.c \
  server/validate_plugin.c \
  server/validate_tree.c \
  server/vocabulary.c \
  server/warm.c \

SERVER_MAIN = server/main.c

# Without loadgen/main.c, which is LOADGEN_MAIN.
LOADGEN_SRCS = \
  loadgen/address.c \
  loadgen/ask.c \
  loadgen/call.c \
  loadgen/channel.c \
  loadgen/client.c \
  loadgen/closed.c \
  loadgen/envelope.c \
  loadgen/file.c \
  loadgen/grpc_wire.c \
  loadgen/http2.c \
  loadgen/http2_session.c \
  loadgen/lengths.c \
  loadgen/metadata.c \
  loadgen/model.c \
  loadgen/number.c \
  loadgen/open.c \
  loadgen/options.c \
  loadgen/payload.c \
  loadgen/plan.c \
  loadgen/plot.c \
  loadgen/program.c \
  loadgen/progress.c \
  loadgen/report.c \
  loadgen/result.c \
  loadgen/rpc.c \
  loadgen/run.c \
  loadgen/session.c \
  loadgen/sweep.c \
  loadgen/timers.c \
  loadgen/tls.c \
  loadgen/values.c \
  loadgen/worker.c \

LOADGEN_MAIN = loadgen/main.c

# Without bench/main.c, which is BENCH_MAIN.
BENCH_SRCS = \
  bench/ablate.c \
  bench/bare.c \
  bench/batching.c \
  bench/calibrate.c \
  bench/cell.c \
  bench/cells_file.c \
  bench/cellular.c \
  bench/closed_loop.c \
  bench/course.c \
  bench/demand.c \
  bench/describe.c \
  bench/engine.c \
  bench/host.c \
  bench/ideal.c \
  bench/kernels.c \
  bench/layouts.c \
  bench/limits.c \
  bench/lstm_model.c \
  bench/seq2seq_model.c \
  bench/shapes.c \
  bench/tree_model.c \
  bench/weights.c \
  bench/open_loop.c \
  bench/own_cell.c \
  bench/peak.c \
  bench/policies.c \
  bench/request.c \
  bench/round_trip.c \
  bench/sequence.c \
  bench/serve.c \
  bench/simulate.c \
  bench/small_ops.c \
  bench/tally.c \
  bench/virtual.c \
  bench/workload.c \
  $(BENCH_SRCS_$(ARCH)) \

# Kernels of one architecture's instruction sets.
BENCH_SRCS_x86_64 = \
  bench/columns__avx2.c \
  bench/columns__avx512.c \

BENCH_MAIN = bench/main.c

# protoc-c turns proto/x.proto into "proto/x.pb-c.h" and its code.
PROTO_SRCS = \
  proto/health.proto \
  proto/inference.proto \
  proto/onnx.proto \
  proto/reflection.proto \
  proto/sentencepiece.proto \

# What clients may ask the server for by reflection (server/grpc/catalog.c). v1alpha is made of v1.
DESCRIBED_PROTOS = \
  proto/health.proto \
  proto/inference.proto \
  proto/reflection.proto \
  proto/reflection_v1alpha.proto \

# ---- Tests ----------------------------------------------------------------------------------

# Linked into every suite.
TEST_UTIL_SRCS = \
  tests/bench/command.c \
  tests/loadgen/echo_server.c \
  tests/loadgen/raw_fixture.c \
  tests/loadgen/raw_server.c \
  tests/util.c \
  tests/certificates.c \
  tests/grpc_client.c \
  tests/http_client.c \
  tests/tls_link.c \
  tests/onnx_builder.c \
  tests/onnx_lstm.c \
  tests/onnx_recurrent.c \
  tests/server/ask.c \
  tests/server/decoder_parts.c \
  tests/server/exposition.c \
  tests/server/frames.c \
  tests/server/hearer.c \
  tests/server/gate.c \
  tests/server/graphs.c \
  tests/server/grpc_draft.c \
  tests/server/models.c \
  tests/server/shelf.c \
  tests/server/parts.c \
  tests/server/site.c \
  tests/server/talk.c \
  tests/server/text_site.c \
  tests/server/work.c \
  tests/cells/bed.c \
  tests/cells/build.c \
  tests/cells/changed.c \
  tests/cells/everywhere.c \
  tests/cells/isa.c \
  tests/cells/oracle.c \
  tests/cells/oracle_chain.c \
  tests/cells/parse.c \
  tests/cells/random_cell.c \
  tests/cells/replay.c \
  tests/cells/rig.c \
  tests/cells/rig_chain.c \
  tests/cells/same_bits.c \
  tests/cells/split.c \
  tests/cells/stored.c \
  tests/cells/team.c \
  tests/cells/windows.c \
  tests/cuda/choice_host.c \
  tests/cuda/driver_host.c \
  tests/cuda/kernels_host.c \
  tests/cuda/lane_bed.c \
  tests/cuda/lane_host.c \
  tests/cuda/lane_host__bf16_128.c \
  tests/cuda/lane_host__bf16_64.c \
  tests/cuda/lane_host__f32_64.c \
  tests/cuda/live.c \
  tests/fuzz/serve.c \
  tests/fuzz/sound.c \
  tests/lane/loop.c \
  tests/lane/rig.c \
  tests/reference_cells.c \
  tests/reference_device.c \
  tests/reference_lane.c \
  tests/reference_run.c \
  tests/scheduler/graphs.c \
  tests/scheduler/sim.c \
  tests/scheduler/sim_case.c \
  tests/scheduler/sim_model.c \
  tests/scheduler/sim_news.c \
  tests/scheduler/unfold_oracle.c \
  tests/worker/pool_rig.c \
  $(CUDA_DEVICE_SRCS) \

# Lanes in the CUDA device, with one thing wrong: suites of lanes that are linked once more with them
# (test_lane_wrong.sh).
LANE_WRONG_SRCS = \
  tests/cuda/lane_wrong/lanes.c \
  tests/cuda/lane_wrong/parts.c \
  tests/cuda/lane_wrong/tasks.c \
  tests/cuda/lane_wrong/wrong.c \

LANE_WRONG_SUITES = \
  tests/cuda/test_device_lane_life.c \
  tests/cuda/test_device_lanes.c \
  tests/cuda/test_device_parts.c \

# Each is one `check` program with a main().
BASE_SUITES = \
  tests/base/test_arena.c \
  tests/base/test_assert.c \
  tests/base/test_buf.c \
  tests/base/test_build.c \
  tests/base/test_checked.c \
  tests/base/test_clock.c \
  tests/base/test_cpus.c \
  tests/base/test_event.c \
  tests/base/test_hash.c \
  tests/base/test_hist.c \
  tests/base/test_inbox.c \
  tests/base/test_log.c \
  tests/base/test_mem.c \
  tests/base/test_process.c \
  tests/base/test_random.c \
  tests/base/test_ring.c \
  tests/base/test_status.c \

CONFIG_SUITES = \
  tests/config/test_config.c \
  tests/config/test_config_docs.c \
  tests/config/test_config_errors.c \
  tests/config/test_triton_config.c \

CELLS_SUITES = \
  tests/cells/test_apart.c \
  tests/cells/test_attend.c \
  tests/cells/test_beside.c \
  tests/cells/test_bounds.c \
  tests/cells/test_calibration.c \
  tests/cells/test_def.c \
  tests/cells/test_device.c \
  tests/cells/test_end.c \
  tests/cells/test_follow.c \
  tests/cells/test_hasty_ring.c \
  tests/cells/test_import.c \
  tests/cells/test_import_activations.c \
  tests/cells/test_import_attention.c \
  tests/cells/test_import_bands.c \
  tests/cells/test_import_bytes.c \
  tests/cells/test_import_count.c \
  tests/cells/test_import_docs.c \
  tests/cells/test_import_exports.c \
  tests/cells/test_import_external.c \
  tests/cells/test_import_hostile.c \
  tests/cells/test_import_ids.c \
  tests/cells/test_import_idioms.c \
  tests/cells/test_import_index.c \
  tests/cells/test_import_joined.c \
  tests/cells/test_import_sorted.c \
  tests/cells/test_import_keras.c \
  tests/cells/test_import_known.c \
  tests/cells/test_import_masks.c \
  tests/cells/test_import_behind.c \
  tests/cells/test_import_frames.c \
  tests/cells/test_import_norm.c \
  tests/cells/test_import_matrices.c \
  tests/cells/test_import_one_hot.c \
  tests/cells/test_import_quantised.c \
  tests/cells/test_import_conv.c \
  tests/cells/test_import_pictures.c \
  tests/cells/test_import_place.c \
  tests/cells/test_import_readers.c \
  tests/cells/test_import_recurrent.c \
  tests/cells/test_import_recurrent_refusals.c \
  tests/cells/test_import_reduce.c \
  tests/cells/test_import_refusals.c \
  tests/cells/test_import_scan.c \
  tests/cells/test_import_stated.c \
  tests/cells/test_import_strided.c \
  tests/cells/test_import_tree.c \
  tests/cells/test_import_regroup.c \
  tests/cells/test_import_relative.c \
  tests/cells/test_import_resize.c \
  tests/cells/test_import_transposed.c \
  tests/cells/test_import_windows.c \
  tests/cells/test_import_written.c \
  tests/cells/test_joined_ops.c \
  tests/cells/test_kernels.c \
  tests/cells/test_lazy.c \
  tests/cells/test_math.c \
  tests/cells/test_named_layers.c \
  tests/cells/test_model_attend.c \
  tests/cells/test_model_states.c \
  tests/cells/test_ops.c \
  tests/cells/test_panels.c \
  tests/cells/test_patches.c \
  tests/cells/test_picture_ops.c \
  tests/cells/test_places.c \
  tests/cells/test_precision.c \
  tests/cells/test_random_cells.c \
  tests/cells/test_pick.c \
  tests/cells/test_reduce.c \
  tests/cells/test_safetensors.c \
  tests/cells/test_shares.c \
  tests/cells/test_spans.c \
  tests/cells/test_taking.c \
  tests/cells/test_stale_window.c \
  tests/cells/test_tree.c \
  tests/cells/test_type.c \
  tests/cells/test_waves.c \
  tests/cells/test_windows.c \
  $(CELLS_SUITES_$(ARCH)) \

CELLS_SUITES_x86_64 = \
  tests/cells/test_mutants.c \

# What a host and a device say to each other (cells/lane/).
LANE_SUITES = \
  tests/lane/test_lane.c \
  tests/lane/test_lane_model.c \
  tests/lane/test_lane_threads.c \
  tests/lane/test_lane_trace.c \

# Linked into them: the model checker of the lane's protocol.
LANE_MODEL_SRCS = \
  tests/lane/model_ahead.c \
  tests/lane/model.c \
  tests/lane/model_host.c \
  tests/lane/model_lane.c \
  tests/lane/model_memory.c \

# The CUDA device (cells/cuda/) over a host's driver.
CUDA_SUITES = \
  tests/cuda/test_choose.c \
  tests/cuda/test_device_bits.c \
  tests/cuda/test_device_faults.c \
  tests/cuda/test_device_lane_life.c \
  tests/cuda/test_device_lanes.c \
  tests/cuda/test_device_memory.c \
  tests/cuda/test_device_mutants.c \
  tests/cuda/test_device_orders.c \
  tests/cuda/test_device_parts.c \
  tests/cuda/test_device_products.c \
  tests/cuda/test_device_runs.c \
  tests/cuda/test_device_search.c \

SCHEDULER_SUITES = \
  tests/scheduler/test_admission.c \
  tests/scheduler/test_builder.c \
  tests/scheduler/test_beams.c \
  tests/scheduler/test_finish_tags.c \
  tests/scheduler/test_graph.c \
  tests/scheduler/test_lasting_runs.c \
  tests/scheduler/test_policy.c \
  tests/scheduler/test_press.c \
  tests/scheduler/test_ready.c \
  tests/scheduler/test_rows.c \
  tests/scheduler/test_scheduler.c \
  tests/scheduler/test_shown.c \
  tests/scheduler/test_side_by_side.c \
  tests/scheduler/test_simulation.c \
  tests/scheduler/test_stacked.c \
  tests/scheduler/test_stop.c \
  tests/scheduler/test_unfold.c \
  tests/scheduler/test_unfold_graph.c \

WORKER_SUITES = \
  tests/worker/test_calibrate.c \
  tests/worker/test_pool.c \
  tests/worker/test_pool_life.c \
  tests/worker/test_team.c \

SERVER_SUITES = \
  tests/server/test_about.c \
  tests/server/test_answer_parts.c \
  tests/server/test_beam.c \
  tests/server/test_control.c \
  tests/server/test_ctc.c \
  tests/server/test_core.c \
  tests/server/test_core_device.c \
  tests/server/test_core_drain.c \
  tests/server/test_core_load.c \
  tests/server/test_core_wait.c \
  tests/server/test_deadline.c \
  tests/server/test_device_cache.c \
  tests/server/test_demo_models.c \
  tests/server/test_decoder_model.c \
  tests/server/test_engine.c \
  tests/server/test_engine_change.c \
  tests/server/test_explain.c \
  tests/server/test_g2p.c \
  tests/server/test_graph_model.c \
  tests/server/test_graph_refusals.c \
  tests/server/test_grpc_access.c \
  tests/server/test_grpc_codec.c \
  tests/server/test_grpc_life.c \
  tests/server/test_grpc_order.c \
  tests/server/test_grpc_parameters.c \
  tests/server/test_grpc_parts.c \
  tests/server/test_grpc_reflection.c \
  tests/server/test_grpc_reply.c \
  tests/server/test_grpc_server.c \
  tests/server/test_grpc_stream.c \
  tests/server/test_grpc_stream_life.c \
  tests/server/test_grpc_tls.c \
  tests/server/test_grpc_watch.c \
  tests/server/test_grpc_wire.c \
  tests/server/test_http_generate.c \
  tests/server/test_http_json.c \
  tests/server/test_http_life.c \
  tests/server/test_http_limits.c \
  tests/server/test_http_access.c \
  tests/server/test_http_events.c \
  tests/server/test_http_order.c \
  tests/server/test_http_number.c \
  tests/server/test_http_route.c \
  tests/server/test_http_server.c \
  tests/server/test_http_tls.c \
  tests/server/test_loop.c \
  tests/server/test_metrics.c \
  tests/server/test_plugin.c \
  tests/server/test_readers.c \
  tests/server/test_real_models.c \
  tests/server/test_repository.c \
  tests/server/test_repository_errors.c \
  tests/server/test_safetensors_model.c \
  tests/server/test_start_calibration.c \
  tests/server/test_session_begins.c \
  tests/server/test_session_failures.c \
  tests/server/test_session_random.c \
  tests/server/test_session_windows.c \
  tests/server/test_sentencepiece.c \
  tests/server/test_sessions.c \
  tests/server/test_status.c \
  tests/server/test_text.c \
  tests/server/test_text_tree.c \
  tests/server/test_tls.c \
  tests/server/test_tokens.c \
  tests/server/test_transducer.c \
  tests/server/test_transducer_beam.c \
  tests/server/test_tree_model.c \
  tests/server/test_turn.c \
  tests/server/test_validate.c \
  tests/server/test_bpe.c \
  tests/server/test_vocabulary.c \

# Those of them that do not mind where cells run: tests/reference.sh runs them on the tests' device.
REFERENCE_SUITES = \
  tests/server/test_answer_parts.c \
  tests/server/test_beam.c \
  tests/server/test_control.c \
  tests/server/test_ctc.c \
  tests/server/test_core_load.c \
  tests/server/test_core_wait.c \
  tests/server/test_deadline.c \
  tests/server/test_decoder_model.c \
  tests/server/test_demo_models.c \
  tests/server/test_g2p.c \
  tests/server/test_graph_model.c \
  tests/server/test_graph_refusals.c \
  tests/server/test_plugin.c \
  tests/server/test_readers.c \
  tests/server/test_real_models.c \
  tests/server/test_safetensors_model.c \
  tests/server/test_text.c \
  tests/server/test_text_tree.c \
  tests/server/test_transducer.c \
  tests/server/test_tree_model.c \

# Those that the CUDA device can: not int8, nor models that come while it runs:
# tests/cuda/test_server.sh.
CUDA_HOST_SUITES = $(filter-out tests/server/test_control.c tests/server/test_real_models.c, \
  $(REFERENCE_SUITES))

LOADGEN_SUITES = \
  tests/loadgen/test_ask.c \
  tests/loadgen/test_channel.c \
  tests/loadgen/test_client.c \
  tests/loadgen/test_grpc_wire.c \
  tests/loadgen/test_hostile.c \
  tests/loadgen/test_lengths.c \
  tests/loadgen/test_load.c \
  tests/loadgen/test_options.c \
  tests/loadgen/test_payload.c \
  tests/loadgen/test_plan.c \
  tests/loadgen/test_result.c \
  tests/loadgen/test_session.c \

BENCH_SUITES = \
  tests/bench/test_bench_ablate.c \
  tests/bench/test_bench_calibrate.c \
  tests/bench/test_bench_cellular.c \
  tests/bench/test_bench_describe.c \
  tests/bench/test_bench_layouts.c \
  tests/bench/test_bench_own_cell.c \
  tests/bench/test_bench_peak.c \
  tests/bench/test_bench_policies.c \
  tests/bench/test_bench_engine.c \
  tests/bench/test_bench_serve.c \
  tests/bench/test_bench_simulate.c \

TEST_SUITES = $(BASE_SUITES) $(CONFIG_SUITES) $(CELLS_SUITES) $(LANE_SUITES) $(CUDA_SUITES) \
  $(SCHEDULER_SUITES) \
  $(WORKER_SUITES) $(SERVER_SUITES) $(LOADGEN_SUITES) $(BENCH_SUITES)

# These run a front end over tests/server/fake_core.c in the place of core.
FAKE_CORE_SRCS = \
  tests/server/access.c \
  tests/server/fake_core.c \
  tests/server/grpc_fixture.c \
  tests/server/grpc_streams.c \
  tests/server/http_fixture.c \

FAKE_CORE_SUITES = \
  tests/server/test_grpc_access.c \
  tests/server/test_grpc_life.c \
  tests/server/test_grpc_order.c \
  tests/server/test_grpc_parts.c \
  tests/server/test_grpc_reflection.c \
  tests/server/test_grpc_server.c \
  tests/server/test_grpc_stream.c \
  tests/server/test_grpc_stream_life.c \
  tests/server/test_grpc_tls.c \
  tests/server/test_grpc_watch.c \
  tests/server/test_http_life.c \
  tests/server/test_http_limits.c \
  tests/server/test_http_access.c \
  tests/server/test_http_events.c \
  tests/server/test_http_order.c \
  tests/server/test_http_server.c \
  tests/server/test_http_tls.c \

# Linked into test_mutants: the AVX2 kernels, each with one thing wrong.
MUTANT_SRCS = \
  tests/cells/mutants/any_nan__avx2.c \
  tests/cells/mutants/bias_last__avx2.c \
  tests/cells/mutants/contraction__avx2.c \
  tests/cells/mutants/h_first__avx2.c \
  tests/cells/mutants/neighbour__avx2.c \
  tests/cells/mutants/no_fma__avx2.c \
  tests/cells/mutants/none__avx2.c \
  tests/cells/mutants/reciprocal__avx2.c \
  tests/cells/mutants/share__avx2.c \
  tests/cells/mutants/two_sums__avx2.c \

# Programs to be run by hand: make build/release/tests/server/grpc_rate
FAKE_CORE_TOOLS = \
  tests/server/grpc_rate.c \
  tests/server/http_rate.c \

# Likewise, without a fake core: make build/release/tests/loadgen/echo_main
LOADGEN_TOOLS = \
  tests/loadgen/echo_main.c \

# libFuzzer targets, tests/fuzz/fuzz_x.c with its corpus in tests/fuzz/corpus/x: fuzzed by `make
# fuzz`; the corpora are replayed by `make test`.
FUZZ_TARGETS = \
  tests/fuzz/fuzz_config.c \
  tests/fuzz/fuzz_json.c \
  tests/fuzz/fuzz_model.c \
  tests/fuzz/fuzz_request.c \
  tests/fuzz/fuzz_safetensors.c \
  tests/fuzz/fuzz_sched.c \
  tests/fuzz/fuzz_sentencepiece.c \
  tests/fuzz/fuzz_text.c \

# Writes models for load tests; built with the programs, needs none of the tests' packages.
MAKE_MODEL_SRCS = \
  tests/onnx_builder.c \
  tests/onnx_lstm.c \
  tests/tools/make_model.c \

# Asks the daemon what conformance suites of others ask: `make conformance`.
CONFORMANCE_SRCS = \
  tests/conformance/cases.c \
  tests/conformance/conformance.c \

# Exit status 0 passes, 77 skips (last line: the reason), else fails. .sh runs under bash, .py under
# the python of build/venv.
TEST_SCRIPTS = \
  tests/daemon/test_daemon.sh \
  tests/daemon/test_reference.sh \
  tests/daemon/test_reload.sh \
  tests/daemon/test_tls.sh \
  tests/daemon/test_tokens.sh \
  tests/cuda/test_card.sh \
  tests/cuda/test_lane_wrong.sh \
  tests/cuda/test_lanes.sh \
  tests/cuda/test_library.sh \
  tests/cuda/test_server.sh \
  tests/lane/test_contract.sh \
  tests/proto/test_numbers.sh \
  tests/docs/test_bands.sh \
  tests/docs/test_ctc.sh \
  tests/docs/test_decoders.sh \
  tests/docs/test_deploy.sh \
  tests/docs/test_graphs.sh \
  tests/docs/test_links.sh \
  tests/docs/test_pictures.sh \
  tests/docs/test_plugins.sh \
  tests/docs/test_quickstart.sh \
  tests/docs/test_readers.sh \
  tests/docs/test_readme.sh \
  tests/docs/test_safetensors.sh \
  tests/docs/test_sessions.sh \
  tests/docs/test_streams.sh \
  tests/docs/test_text.sh \
  tests/docs/test_tls.sh \
  tests/docs/test_tokens.sh \
  tests/docs/test_together.sh \
  tests/docs/test_transducers.sh \
  tests/docs/test_trees.sh \
  tests/docs/test_triton.sh \
  tests/docs/test_cells.sh \
  tests/docs/test_video.sh \
  tests/server/test_curl_examples.sh \
  tests/bench/test_gpu_build.sh \
  tests/bench/test_gpu_document.sh \
  tests/bench/test_gpu_scripts.sh \
  tests/test_check_text.sh \
  tests/test_install.sh \
  tests/test_layers.sh \
  tests/test_reference.sh \
  tests/test_run.sh \

# Suites left out of BUILD=tsan, each with its reason beside it.
# - test_grpc_life, _order, _reflection, _server, _stream, _stream_life, _tls, _watch, test_load: gRPC is not built for
#   it, so what it synchronises looks like races. test_load passes with TSAN_OPTIONS=ignore_noninstrumented_modules=1 CK_FORK=no.
TSAN_EXCLUDED = \
  tests/loadgen/test_load.c \
  tests/server/test_grpc_life.c \
  tests/server/test_grpc_order.c \
  tests/server/test_grpc_parts.c \
  tests/server/test_grpc_reflection.c \
  tests/server/test_grpc_server.c \
  tests/server/test_grpc_stream.c \
  tests/server/test_grpc_stream_life.c \
  tests/server/test_grpc_tls.c \
  tests/server/test_grpc_watch.c \

# These compute and no more: they keep no deadline of less than seconds, and share no file or port. Where there
# are cores they run beside each other, the longest first; the rest runs alone, one after the other.
BESIDE_TESTS = \
  tests/cells/test_kernels.c \
  tests/cells/test_lazy.c \
  tests/cuda/test_card.sh \
  tests/cells/test_joined_ops.c \
  tests/cells/test_ops.c \
  tests/cells/test_patches.c \
  tests/cells/test_picture_ops.c \
  tests/cells/test_bounds.c \
  tests/cells/test_device.c \
  tests/lane/test_lane_model.c \
  tests/cuda/test_device_products.c \
  tests/docs/test_together.sh \
  tests/cuda/test_library.sh \
  tests/docs/test_bands.sh \
  tests/docs/test_decoders.sh \
  tests/cuda/test_gates.sh \
  tests/docs/test_pictures.sh \
  tests/docs/test_readers.sh \
  tests/cells/test_random_cells.c \
  tests/cells/test_math.c \
  tests/server/test_real_models.c \
  tests/docs/test_graphs.sh \
  tests/docs/test_plugins.sh \
  tests/cuda/test_lane_block.c \
  tests/docs/test_quickstart.sh \
  tests/docs/test_ctc.sh \
  tests/docs/test_text.sh \
  tests/docs/test_transducers.sh \
  tests/docs/test_trees.sh \
  tests/docs/test_triton.sh \
  tests/docs/test_cells.sh \
  tests/docs/test_video.sh \
  tests/cells/test_tree.c \
  tests/cells/test_end.c \
  tests/cells/test_follow.c \
  tests/docs/test_safetensors.sh \
  tests/cuda/test_device_bits.c \
  tests/cuda/test_lane_removed.c \
  tests/cells/test_precision.c \
  tests/scheduler/test_simulation.c \
  tests/bench/test_gpu_build.sh \
  tests/cells/test_apart.c \
  tests/cells/test_stale_window.c \
  tests/cells/test_hasty_ring.c \
  tests/cells/test_mutants.c \
  tests/cuda/test_lane_life.c \
  tests/cuda/test_fragment.c \
  tests/cells/test_attend.c \
  tests/cells/test_waves.c \

# ---- Block code of cells/cuda/, a fiber a thread --------------------------------------------

# The emulator of a thread block, and lanes in it; linked into the suites below.
FIBER_SRCS = \
  cells/cuda/lane_pack.c \
  tests/cuda/fiber.c \
  tests/cuda/fiber_lane.c \
  tests/cuda/fiber_lane__bf16_128.c \
  tests/cuda/fiber_lane__bf16_16.c \
  tests/cuda/fiber_lane__bf16_64.c \
  tests/cuda/fiber_lane__f32_16.c \
  tests/cuda/fiber_lane__f32_64.c \
  tests/cuda/fiber_lane_define.c \
  tests/cuda/fiber_mutants.c \
  tests/cuda/fiber_order.c \
  tests/cuda/fiber_scenes.c \

FIBER_SUITES = \
  tests/cuda/test_fragment.c \
  tests/cuda/test_lane_block.c \
  tests/cuda/test_lane_fiber.c \
  tests/cuda/test_lane_life.c \
  tests/cuda/test_lane_removed.c \

TEST_SUITES += $(FIBER_SUITES)
TEST_SCRIPTS += tests/cuda/test_gates.sh

# Fibers of one thread, whose order they check themselves.
TSAN_EXCLUDED += $(FIBER_SUITES)

# ---- AArch64 in an emulator: `make test-neon` -----------------------------------------------

# The CPU device and what it stands on, with its suites: what needs few libraries.
EMULATED_UTIL_SRCS = \
  tests/cells/bed.c \
  tests/cells/build.c \
  tests/cells/everywhere.c \
  tests/cells/isa.c \
  tests/cells/oracle.c \
  tests/cells/oracle_chain.c \
  tests/cells/random_cell.c \
  tests/cells/rig.c \
  tests/cells/rig_chain.c \
  tests/cells/same_bits.c \
  tests/cells/split.c \
  tests/cells/team.c \
  tests/cuda/choice_host.c \
  tests/cuda/driver_host.c \
  tests/cuda/kernels_host.c \
  tests/cuda/lane_host.c \
  tests/cuda/lane_host__bf16_128.c \
  tests/cuda/lane_host__bf16_64.c \
  tests/cuda/lane_host__f32_64.c \
  tests/cuda/live.c \
  tests/reference_cells.c \
  tests/util.c \
  $(CUDA_DEVICE_SRCS) \

EMULATED_SUITES = \
  tests/cells/test_apart.c \
  tests/cells/test_bounds.c \
  tests/cells/test_def.c \
  tests/cells/test_device.c \
  tests/cells/test_kernels.c \
  tests/cells/test_lazy.c \
  tests/cells/test_math.c \
  tests/cells/test_joined_ops.c \
  tests/cells/test_ops.c \
  tests/cells/test_patches.c \
  tests/cells/test_picture_ops.c \
  tests/cells/test_precision.c \
  tests/cells/test_random_cells.c \
  tests/cells/test_type.c \
  tests/cells/test_waves.c \
  tests/worker/test_team.c \

# ---- AVX-512 on machines without it: `make test-avx512`; without AMX alone: `make test-amx` ----

# Its kernels, compiled for AVX2 behind a header whose functions stand for the instructions, and what
# asks whether the processor has them.
AVX512_SRCS = \
  cells/cpu/bf16__avx512.c \
  cells/cpu/bf16__avx512bf16.c \
  cells/cpu/int8__avx512.c \
  cells/cpu/int8__avx512amx.c \
  cells/cpu/int8__avx512vnni.c \
  cells/cpu/kernels__avx512.c \
  cells/cpu/reduce.c \
  cells/cpu/reduced.c \
  cells/kernels.c \
  tests/cells/emulated_tiles.c \

AVX512_SUITES = \
  tests/cells/test_apart.c \
  tests/cells/test_bounds.c \
  tests/cells/test_device.c \
  tests/cells/test_kernels.c \
  tests/cells/test_lazy.c \
  tests/cells/test_joined_ops.c \
  tests/cells/test_ops.c \
  tests/cells/test_patches.c \
  tests/cells/test_picture_ops.c \
  tests/cells/test_precision.c \
  tests/cells/test_random_cells.c \
  tests/cells/test_tree.c \
  tests/cells/test_waves.c \

# On a processor that has AVX-512 and no tiles what they multiply is emulated, and no more.
AMX_SRCS = \
  cells/cpu/int8__avx512amx.c \
  tests/cells/emulated_tiles.c \

# Those that know of int8.
AMX_SUITES = \
  tests/cells/test_device.c \
  tests/cells/test_kernels.c \
  tests/cells/test_ops.c \
  tests/cells/test_patches.c \
  tests/cells/test_picture_ops.c \
  tests/cells/test_precision.c \
  tests/cells/test_random_cells.c \
  tests/cells/test_tree.c \

# CROSS: a folder with the target's libraries (scripts/cross-root.sh); then nothing else is built.
ifdef CROSS
CELLS_SRCS     := $(filter-out cells/import/%,$(CELLS_SRCS))
WORKER_SRCS    := worker/team.c
TEST_UTIL_SRCS := $(EMULATED_UTIL_SRCS)
TEST_SUITES    := $(EMULATED_SUITES)
CONFIG_SRCS    :=
SCHEDULER_SRCS :=
SERVER_SRCS    :=
LOADGEN_SRCS   :=
BENCH_SRCS     :=
PROTO_SRCS     :=
FUZZ_TARGETS   :=
endif

# ---- Third-party libraries (pkg-config names) -----------------------------------------------

SERVER_PACKAGES  = libuv grpc gpr libprotobuf-c libmicrohttpd gnutls jansson yaml-0.1 openblas libxxhash hwloc
LOADGEN_PACKAGES = libnghttp2 gnutls libprotobuf-c libxxhash
BENCH_PACKAGES   = libuv libprotobuf-c jansson yaml-0.1 openblas libxxhash hwloc
TEST_PACKAGES    = $(SERVER_PACKAGES) libnghttp2 check

# Each asks pkg-config at its first use in a recipe and remembers the answer.
PKG_CFLAGS   = $(eval PKG_CFLAGS := $$(patsubst -I%,-isystem %,$$(shell pkg-config --cflags $(TEST_PACKAGES))))$(PKG_CFLAGS)
SERVER_LIBS  = $(eval SERVER_LIBS := $$(shell pkg-config --libs $(SERVER_PACKAGES)))$(SERVER_LIBS)
LOADGEN_LIBS = $(eval LOADGEN_LIBS := $$(shell pkg-config --libs $(LOADGEN_PACKAGES)))$(LOADGEN_LIBS)
BENCH_LIBS   = $(eval BENCH_LIBS := $$(shell pkg-config --libs $(BENCH_PACKAGES)))$(BENCH_LIBS)
TEST_LIBS    = $(eval TEST_LIBS := $$(shell pkg-config --libs $(TEST_PACKAGES)))$(TEST_LIBS)

# Linked statically, so that the emulator needs none of it.
ifdef CROSS
CROSS_DIRS = $(CROSS)/usr/lib/$(ARCH)-linux-gnu
PKG_CFLAGS = -isystem $(CROSS)/usr/include -isystem $(CROSS)/usr/include/$(ARCH)-linux-gnu/openblas-pthread
TEST_LIBS  = -static -L$(CROSS_DIRS) -L$(CROSS_DIRS)/openblas-pthread \
  -lcheck -lsubunit -ljansson -lxxhash -lopenblas
endif

# ---- Flags ----------------------------------------------------------------------------------

OUT := build/$(BUILD)$(if $(IS_CLANG),-clang)$(if $(filter-out x86_64,$(ARCH)),-$(ARCH))

STD      := -std=c11 -D_GNU_SOURCE -I. -isystem $(OUT)/proto
BOTH_WARNINGS := -Werror -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
  -Wdouble-promotion -Wcast-qual -Wcast-align -Wpointer-arith -Wwrite-strings -Wundef -Wvla \
  -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wredundant-decls \
  -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference
GCC_WARNINGS := -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Walloc-zero -Wstrict-aliasing=2
CLANG_WARNINGS := -Wcomma -Wno-string-conversion # base_assert(!"reason") is meant
WARNINGS := $(BOTH_WARNINGS) $(if $(IS_CLANG),$(CLANG_WARNINGS),$(GCC_WARNINGS))

# In every build: no contraction, so that results keep their bits; FMA only where it is written.
COMMON := -g -fno-common -fno-math-errno -ffp-contract=off -pthread
DEBUG  := -DCELLBATCH_DEBUG -fno-omit-frame-pointer
LINK   := -Wl,--as-needed -Wl,--build-id

ifeq ($(BUILD),release)
MODE := -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=3 -fstack-clash-protection
LINK += -Wl,-z,relro,-z,now
else ifeq ($(BUILD),debug)
MODE := -O0 $(DEBUG)
else ifeq ($(BUILD),asan)
SANITIZE := -fsanitize=address,undefined,leak -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),ubsan)
SANITIZE := -fsanitize=undefined -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),tsan)
SANITIZE := -fsanitize=thread
MODE := -O1 $(DEBUG)
else ifeq ($(BUILD),cov)
SANITIZE := --coverage
MODE := -O0
else ifeq ($(BUILD),fuzz)
SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
MODE := -O1 $(DEBUG)
else
$(error BUILD=$(BUILD): must be release, debug, asan, ubsan, tsan, cov or fuzz)
endif

CFLAGS_ALL := $(STD) $(COMMON) $(MODE) $(SANITIZE)
LDFLAGS    := $(COMMON) $(MODE) $(SANITIZE) $(LINK)

# Kernels of one instruction set stand in files of their own; everything else is baseline.
# PREFETCHW is a hint: older processors with AVX2 that do not know it pass over it.
isa_flags = $(if $(filter %__avx2.c,$(1)),-mavx2 -mfma -mprfchw) \
  $(if $(filter %__avx512.c %__avx512bf16.c %__avx512vnni.c %__avx512amx.c,$(1)),-mavx512f -mavx512bw \
    -mavx512dq -mavx512vl -mfma -mprfchw -mprefer-vector-width=512) \
  $(if $(filter cells/cpu/%__avx512bf16.c,$(1)),-mavx512bf16) \
  $(if $(filter cells/cpu/%__avx512vnni.c cells/cpu/%__avx512amx.c,$(1)),-mavx512vnni) \
  $(if $(filter cells/cpu/%__avx512amx.c,$(1)),-mamx-tile -mamx-int8) \
  $(if $(filter cells/cpu/%__neondot.c,$(1)),-march=armv8.2-a+dotprod)
# For the checks, which read what is of another architecture too.
lint_flags = $(call isa_flags,$(1)) \
  $(if $(findstring __neon,$(1)),--target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include) \
  $(if $(filter tests/plugins/% examples/%,$(1)),-Iinclude)
comma := ,
# Skylake's successors cannot keep decoded what jumps across 32 bytes (Intel, "Mitigations for Jump
# Conditional Code Erratum"): an inner loop would lose a tenth by where it happens to lie.
# A tile's sums are a local array: watched by ASan it stays out of registers, a hundred times slower;
# UBSan checks its bounds.
# To follow where each variable of an optimised tile is doubles gcc's time: lines and functions are enough.
# The code is the same, byte for byte.
# On AArch64 gcc reorders before it gives out registers, and then has too few for the largest tiles.
asm_flags = $(if $(filter cells/cpu/%__avx2.c bench/%__avx2.c %__avx512.c %__avx512bf16.c %__avx512vnni.c %__avx512amx.c,$(1)),\
  $(if $(IS_CLANG),,-Wa$(comma))-mbranches-within-32B-boundaries \
  $(if $(filter asan,$(BUILD)),$(if $(IS_CLANG),,--param asan-stack=0))) \
  $(if $(IS_CLANG),,$(if $(filter cells/cpu/%__neon.c cells/cpu/%__neondot.c,$(1)),-fno-schedule-insns)) \
  $(if $(filter-out debug cov,$(BUILD)),$(if $(findstring __,$(filter cells/cpu/%,$(1))),-g1))

# ---- Quiet output: $(call say,CC,file) ------------------------------------------------------

ifeq ($(V),1)
Q   :=
say := @:
else
Q   := @
say = @printf '  %-7s %s\n' $(1) $(2)
endif

# ---- Rules ----------------------------------------------------------------------------------

.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

all: programs ## build the programs (default)

objects = $(patsubst %.c,$(OUT)/%.o,$(1))

PROTO_CODE    := $(PROTO_SRCS:%.proto=$(OUT)/proto/%.pb-c.c)
PROTO_HEADERS := $(PROTO_CODE:.c=.h)
PROTO_OBJECTS := $(PROTO_CODE:.c=.o)
DESCRIPTORS   := $(OUT)/proto/proto/descriptors

# A static library a folder, in layer order: users before what they use.
CORE_LIBS    := $(if $(SERVER_SRCS),$(OUT)/libserver.a) \
  $(if $(WORKER_SRCS),$(OUT)/libworker.a) \
  $(if $(SCHEDULER_SRCS),$(OUT)/libscheduler.a) \
  $(if $(CELLS_SRCS),$(OUT)/libcells.a) \
  $(if $(CONFIG_SRCS),$(OUT)/libconfig.a) \
  $(OUT)/libbase.a $(if $(PROTO_SRCS),$(OUT)/libproto.a)
LIBLOADGEN   := $(if $(LOADGEN_SRCS),$(OUT)/libloadgen.a)
LIBBENCH     := $(if $(BENCH_SRCS),$(OUT)/libbench.a)

PROGRAMS := $(if $(SERVER_MAIN),$(OUT)/cellbatchd) \
  $(if $(LOADGEN_MAIN),$(OUT)/cellbatch-load) \
  $(if $(BENCH_MAIN),$(OUT)/cellbatch-bench)

# ---- libcellbatch_cuda.so: `make CUDA=1`; needs nvcc and cuBLASLt, no GPU -------------------------

CUDA_HOME ?= /usr/local/cuda
CUDA_ARCH ?= 80 90
NVCC      := $(CUDA_HOME)/bin/nvcc
# PTX of the newest too, for cards that come later. No contraction, as everywhere: bits are defined.
NVCC_FLAGS = -std=c++17 -O3 -I. -fmad=false -lineinfo -Werror all-warnings \
  -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
  $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
  -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

CUDA_LIBRARY := $(OUT)/libcellbatch_cuda.so
CUDA_OBJECTS := $(CUDA_LIBRARY_SRCS:%.c=$(OUT)/cuda/%.o) $(CUDA_KERNELS:%.cu=$(OUT)/cuda/%.o)

# Objects of its own: position-independent, and with nothing to be seen from outside.
$(OUT)/cuda/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include \
	  -MMD -MP -c $< -o $@

$(OUT)/cuda/%.o: %.cu $(OUT)/cuda/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

$(OUT)/cuda/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$(NVCC) $(NVCC_FLAGS)" | cmp -s - $@ || printf '%s\n' "$(NVCC) $(NVCC_FLAGS)" > $@

# The runtime inside, which finds the driver by itself and says so where there is none.
$(CUDA_LIBRARY): $(CUDA_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,--exclude-libs,ALL $(if $(SANITIZE),,-Wl,-z$(comma)defs) $^ -L$(CUDA_HOME)/lib64 \
	  -lcublasLt -lcudart_static -ldl -lrt -lm -lstdc++ -o $@

-include $(CUDA_OBJECTS:.o=.d)

cuda-library: $(CUDA_LIBRARY) ## the CUDA device's library; CUDA_ARCH="80 90"

ifeq ($(CUDA),1)
programs: $(CUDA_LIBRARY)
endif

programs: $(PROGRAMS) $(CORE_LIBS) $(OUT)/tests/tools/make_model

$(OUT)/libbase.a:      $(call objects,$(BASE_SRCS))
$(OUT)/libconfig.a:    $(call objects,$(CONFIG_SRCS))
$(OUT)/libcells.a:     $(call objects,$(CELLS_SRCS))
$(OUT)/libscheduler.a: $(call objects,$(SCHEDULER_SRCS))
$(OUT)/libworker.a:    $(call objects,$(WORKER_SRCS))
$(OUT)/libserver.a:    $(call objects,$(SERVER_SRCS))
$(OUT)/libloadgen.a:   $(call objects,$(LOADGEN_SRCS))
$(OUT)/libbench.a:     $(call objects,$(BENCH_SRCS))
$(OUT)/libproto.a:     $(PROTO_OBJECTS) $(if $(PROTO_SRCS),$(DESCRIPTORS).o)
$(OUT)/libtestutil.a:  $(call objects,$(TEST_UTIL_SRCS))

# Made anew when the list of its sources has changed.
$(OUT)/%.a: Makefile
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(OUT)/cellbatchd: $(call objects,$(SERVER_MAIN)) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(SERVER_LIBS) -ldl -lm -o $@

$(OUT)/cellbatch-load: $(call objects,$(LOADGEN_MAIN)) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LOADGEN_LIBS) -lm -o $@

$(OUT)/cellbatch-bench: $(call objects,$(BENCH_MAIN)) $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(BENCH_LIBS) -ldl -lm -o $@

$(OUT)/tests/tools/make_model: $(call objects,$(MAKE_MODEL_SRCS)) $(OUT)/libbase.a $(OUT)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(LOADGEN_LIBS) -lm -o $@

$(OUT)/%.o: %.c $(OUT)/flags | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) $(call isa_flags,$<) $(call asm_flags,$<) \
	  $(FILE_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@

$(OUT)/proto/%.pb-c.c $(OUT)/proto/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$<)
	$(Q)protoc-c --proto_path=. --c_out=$(OUT)/proto $<

$(PROTO_OBJECTS) $(DESCRIPTORS).o: %.o: %.c $(OUT)/flags | $(PROTO_HEADERS)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -w $(PKG_CFLAGS) -c $< -o $@

$(OUT)/proto/proto/%_v1alpha.proto: proto/%.proto
	@mkdir -p $(@D)
	$(Q)sed 's/^package \(.*\)\.v1;/package \1.v1alpha;/' $< > $@

# A FileDescriptorSet, as protoc writes it.
$(DESCRIPTORS).set: Makefile $(filter-out %_v1alpha.proto,$(DESCRIBED_PROTOS)) $(OUT)/proto/proto/reflection_v1alpha.proto
	$(call say,PROTOC,$@)
	$(Q)protoc-c --proto_path=$(OUT)/proto --proto_path=. --include_imports --descriptor_set_out=$@ $(DESCRIBED_PROTOS)

# The same as an array of C.
$(DESCRIPTORS).c: $(DESCRIPTORS).set
	$(Q){ printf '#include <stddef.h>\nconst unsigned char proto_descriptors[] = {\n'; \
	  od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g'; \
	  printf '};\nconst size_t proto_descriptors_bytes = sizeof proto_descriptors;\n'; } > $@

# Plug-ins as users build them (docs/plugins.md), for the tests; wrong.c is one a variant.
TEST_PLUGINS := $(OUT)/tests/plugins/steered.so $(OUT)/examples/unfold_grid/unfold.so \
  $(foreach v,1 2 3 4 5 6 7 8,$(OUT)/tests/plugins/wrong$(v).so)
plugin_command = $(CC) $(CFLAGS_ALL) $(WARNINGS) -Iinclude -fPIC -shared

$(OUT)/%.so: %.c include/cellbatch/unfold.h tests/plugins/steered.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,SO,$<)
	$(Q)$(plugin_command) $< -o $@

$(OUT)/tests/plugins/wrong%.so: tests/plugins/wrong.c include/cellbatch/unfold.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,SO,$@)
	$(Q)$(plugin_command) -DVARIANT=$* $< -o $@

$(OUT)/tests/server/test_plugin: | $(TEST_PLUGINS)
$(OUT)/tests/server/test_plugin.o: FILE_CFLAGS = -DCELLBATCH_OUT='"$(CURDIR)/$(OUT)"'

# Where the tests find their golden files.
$(OUT)/tests/util.o: FILE_CFLAGS = -DCELLBATCH_SOURCE_DIR='"$(CURDIR)"'

# Speed does not matter to them, but the time that ten bodies take to compile: half a minute each with
# sanitizers, which watch the right one. Contraction is a matter of -O2.
MUTANT_CFLAGS := -O1 -g0 -fno-sanitize=all -DCELL_SUMS_ALONE -Wno-maybe-uninitialized
$(patsubst %.c,$(OUT)/%.o,$(MUTANT_SRCS)): FILE_CFLAGS = $(MUTANT_CFLAGS)
$(OUT)/tests/cells/mutants/contraction__avx2.o: FILE_CFLAGS = $(MUTANT_CFLAGS) -O2 -ffp-contract=fast

# Changes only when the compiler or its flags change, so that objects of two kinds never mix.
kernel_kinds := avx2 avx512 avx512bf16 avx512vnni avx512amx neon neondot
all_flags = $(CC) $(CFLAGS_ALL) $(WARNINGS) \
  $(foreach k,$(kernel_kinds),$(call isa_flags,cells/cpu/x__$(k).c) $(call asm_flags,cells/cpu/x__$(k).c))
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$(subst ",,$(all_flags))" | cmp -s - $@ || printf '%s\n' "$(subst ",,$(all_flags))" > $@

-include $(patsubst %.o,%.d,$(call objects,$(BASE_SRCS) $(CONFIG_SRCS) $(CELLS_SRCS) \
  $(SCHEDULER_SRCS) $(WORKER_SRCS) $(SERVER_SRCS) $(SERVER_MAIN) $(LOADGEN_SRCS) $(LOADGEN_MAIN) \
  $(BENCH_SRCS) $(BENCH_MAIN) $(TEST_UTIL_SRCS) $(TEST_SUITES) $(FUZZ_TARGETS) \
  tests/fuzz/driver.c \
  $(FAKE_CORE_SRCS) $(FAKE_CORE_TOOLS) $(LOADGEN_TOOLS) $(MAKE_MODEL_SRCS) $(CONFORMANCE_SRCS) $(MUTANT_SRCS) \
  $(LANE_MODEL_SRCS) $(TEST_DAEMON_SRCS) $(LANE_WRONG_SRCS) \
  tests/cells/mutants/stale_window.c tests/cells/mutants/hasty_ring.c))

# ---- Tests: `make test SUITE=test_ring` runs one --------------------------------------------

chosen = $(if $(SUITE),$(filter $(foreach s,$(SUITE),%/$(s).c %/$(s).sh %/$(s).py),$(1)),$(1))

CHOSEN_SUITES  := $(call chosen,$(if $(filter tsan,$(BUILD)),\
  $(filter-out $(TSAN_EXCLUDED),$(TEST_SUITES)),$(TEST_SUITES)))
CHOSEN_SCRIPTS := $(call chosen,$(TEST_SCRIPTS))
CHOSEN_FUZZ    := $(call chosen,$(FUZZ_TARGETS))
# cellbatchd with the tests' device in its table of backends, by a file of ours in the library's place.
TEST_DAEMON      := $(OUT)/cellbatchd-test
TEST_DAEMON_SRCS := tests/daemon/backends.c
FUZZ_PROGRAMS  := $(CHOSEN_FUZZ:%.c=$(OUT)/%)
TEST_PROGRAMS  := $(CHOSEN_SUITES:%.c=$(OUT)/%) $(FUZZ_PROGRAMS)
# What scripts run, whichever suites are chosen.
REFERENCE_PROGRAMS := $(REFERENCE_SUITES:%.c=$(OUT)/%)
CUDA_HOST_PROGRAMS := $(CUDA_HOST_SUITES:%.c=$(OUT)/%)
LANE_WRONG_PROGRAMS := $(LANE_WRONG_SUITES:tests/cuda/%.c=$(OUT)/tests/cuda/lane_wrong/%)
AVX512_PROGRAMS := $(patsubst %.c,$(OUT)/avx512/%,$(call chosen,$(AVX512_SUITES)))
AVX512_OBJECTS  := $(AVX512_SRCS:%.c=$(OUT)/avx512/%.o)
AMX_PROGRAMS    := $(patsubst %.c,$(OUT)/amx/%,$(call chosen,$(AMX_SUITES)))
AMX_OBJECTS     := $(AMX_SRCS:%.c=$(OUT)/avx512/%.o)
CONFORMANCE    := $(OUT)/tests/conformance/conformance
TEST_TOOLS     := $(patsubst %.c,$(OUT)/%,$(FAKE_CORE_TOOLS) $(LOADGEN_TOOLS)) $(CONFORMANCE)

# Objects before archives, so that what a suite brings stands in for what the libraries have.
$(sort $(TEST_PROGRAMS) $(REFERENCE_PROGRAMS)) $(TEST_TOOLS): %: %.o $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(FUZZ_MAIN) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(LANE_WRONG_PROGRAMS): $(OUT)/tests/cuda/lane_wrong/%: $(OUT)/tests/cuda/%.o \
  $(call objects,$(LANE_WRONG_SRCS)) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

# -O1: registers for vectors that are two cannot suffice, and -O2 tries for minutes.
avx512_flags = $(call isa_flags,x__avx2.c) -O1 -g1 -Wno-pedantic -Wno-psabi -include tests/cells/emulated_avx512__avx2.h \
  $(if $(filter %avx512bf16.c,$(1)),-DEMULATED_BF16) $(if $(filter %avx512vnni.c %avx512amx.c,$(1)),-DEMULATED_VNNI)

$(AVX512_OBJECTS): $(OUT)/avx512/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(WARNINGS) $(if $(findstring __,$<),$(call avx512_flags,$<),-D'__builtin_cpu_supports(x)=1') \
	  -MMD -MP -c $< -o $@

-include $(AVX512_OBJECTS:.o=.d)

$(AVX512_PROGRAMS): $(OUT)/avx512/%: $(OUT)/%.o $(AVX512_OBJECTS) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(AMX_PROGRAMS): $(OUT)/amx/%: $(OUT)/%.o $(AMX_OBJECTS) $(OUT)/libtestutil.a $(LIBBENCH) $(LIBLOADGEN) $(CORE_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

$(TEST_DAEMON): $(call objects,$(SERVER_MAIN) $(TEST_DAEMON_SRCS)) $(OUT)/libtestutil.a $(CORE_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) -ldl -lm -o $@

# Where scripts look for programs, with that daemon as the daemon.
$(OUT)/reference/stamp: $(TEST_DAEMON) $(PROGRAMS)
	@mkdir -p $(@D)
	$(Q)for program in $(notdir $(PROGRAMS)) tests; do ln -sfn ../$$program $(@D)/$$program; done
	$(Q)ln -sfn ../cellbatchd-test $(@D)/cellbatchd
	@touch $@

ifeq ($(BUILD),fuzz)
$(FUZZ_PROGRAMS): FUZZ_MAIN := -fsanitize=fuzzer
else
$(FUZZ_PROGRAMS): $(call objects,tests/fuzz/driver.c)
endif

$(patsubst %.c,$(OUT)/%,$(FAKE_CORE_SUITES) $(FAKE_CORE_TOOLS)): $(call objects,$(FAKE_CORE_SRCS))

$(CONFORMANCE): $(OUT)/tests/conformance/cases.o

$(patsubst %.c,$(OUT)/%,$(LANE_SUITES)): $(call objects,$(LANE_MODEL_SRCS))

$(patsubst %.c,$(OUT)/%,$(FIBER_SUITES)): $(call objects,$(FIBER_SRCS))
-include $(FIBER_SRCS:%.c=$(OUT)/%.d)

$(OUT)/tests/cells/test_mutants: $(call objects,$(MUTANT_SRCS))
$(OUT)/tests/cells/test_stale_window: $(OUT)/tests/cells/mutants/stale_window.o
$(OUT)/tests/cells/test_hasty_ring: $(OUT)/tests/cells/mutants/hasty_ring.o

# For a recipe: all cores, unless make was told how many.
all_cores = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$$(nproc))

# $(call run_tests,PATHS): with those first that may run beside each other; how many of them at once.
TEST_JOBS ?= $$(nproc)
beside = $(filter $(1),$(BESIDE_TESTS:%.c=$(OUT)/%) \
  $(foreach folder,$(OUT)/avx512 $(OUT)/amx,$(patsubst %.c,$(folder)/%,$(filter %.c,$(BESIDE_TESTS)))))
run_tests = BUILD=$(BUILD) OUT=$(OUT) TEST_JOBS="$(TEST_JOBS)" TEST_BESIDE="$(call beside,$(1))" \
  bash tests/run.sh $(call beside,$(1)) $(filter-out $(call beside,$(1)),$(1))

test: deps ## build and run all suites; SUITE=test_ring for one
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-tests

FUZZ_SECONDS ?= 60
fuzz: deps ## fuzz each target for FUZZ_SECONDS=60 with clang; SUITE=fuzz_model for one
	+$(Q)$(MAKE) --no-print-directory BUILD=fuzz CC=clang run-fuzz

# What is found stays in build/fuzz-clang/found/; the corpora in the tree are not changed.
run-fuzz: $(FUZZ_PROGRAMS)
	$(Q)OUT=$(OUT) bash tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_PROGRAMS)

FUZZ_ROUNDS ?= 10
fuzz-models: programs deps-peers ## random ONNX models beside ONNX Runtime: FUZZ_ROUNDS=10 of 60 models
	$(Q)build/peers/bin/python tests/fuzz/random_models.py --daemon $(OUT)/cellbatchd \
	  --rounds $(FUZZ_ROUNDS) --seed $(or $(CELLBATCH_SEED),1)

demo: deps ## build, serve models/, ask, draw latency against load
	+$(Q)$(MAKE) --no-print-directory $(all_cores) programs
	$(Q)OUT=$(OUT) bash scripts/demo.sh

check-long: ## all that lint checks, in depth, tests under every build and both compilers, long ones too, and gcc -fanalyzer
	$(Q)rm -rf build/lint
	+$(Q)$(MAKE) --no-print-directory TIDY_NODES=225000 lint
	+$(Q)$(MAKE) --no-print-directory analyze
	+$(Q)for cc in gcc clang; do for build in release debug asan ubsan tsan; do \
	  echo "== $$cc, $$build"; \
	  long=; [ $$build != release ] || long='CELLBATCH_LONG=1 TEST_LIMIT_S=7200'; \
	  env $$long $(MAKE) --no-print-directory CC=$$cc BUILD=$$build test || exit 1; \
	done; done

# A process for each case would have the emulator translate everything anew.
test-neon: deps-neon ## the AArch64 kernels, cross-compiled, in an emulator
	+$(Q)CELLBATCH_QUICK=1 CK_FORK=no TEST_EMULATOR=qemu-aarch64 $(MAKE) --no-print-directory \
	  $(all_cores) ARCH=aarch64 CROSS=build/arm64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar run-emulated

test-avx512: deps ## the AVX-512 kernels on a machine with AVX2 alone, their instructions emulated
	+$(Q)CELLBATCH_QUICK=1 $(MAKE) --no-print-directory $(all_cores) run-avx512

run-avx512: $(AVX512_PROGRAMS)
	$(Q)$(call run_tests,$(AVX512_PROGRAMS))

test-amx: deps ## the kernels with AMX on a machine with the rest of AVX-512, its instructions emulated
	+$(Q)CELLBATCH_QUICK=1 $(MAKE) --no-print-directory $(all_cores) run-amx

run-amx: $(AMX_PROGRAMS)
	$(Q)$(call run_tests,$(AMX_PROGRAMS))

run-emulated: $(TEST_PROGRAMS)
	$(Q)$(call run_tests,$(TEST_PROGRAMS))

run-tests: programs $(TEST_PROGRAMS) $(OUT)/reference/stamp \
  $(if $(filter %/test_reference.sh,$(CHOSEN_SCRIPTS)),$(REFERENCE_PROGRAMS)) \
  $(if $(filter %/cuda/test_server.sh,$(CHOSEN_SCRIPTS)),$(CUDA_HOST_PROGRAMS)) \
  $(if $(filter %/cuda/test_lane_wrong.sh,$(CHOSEN_SCRIPTS)),$(LANE_WRONG_PROGRAMS))
	$(Q)REFERENCE_PROGRAMS="$(REFERENCE_PROGRAMS)" CUDA_HOST_PROGRAMS="$(CUDA_HOST_PROGRAMS)" \
	  $(call run_tests,$(TEST_PROGRAMS) $(CHOSEN_SCRIPTS))

test-reference: deps ## the server's suites and the documents on 1 and on 2 of the tests' devices, and without a card on the CUDA device
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-reference

run-reference: programs $(REFERENCE_PROGRAMS) $(CUDA_HOST_PROGRAMS) $(OUT)/reference/stamp
	$(Q)for n in 1 2; do \
	  BUILD=$(BUILD) OUT=$(OUT) REFERENCE_PROGRAMS="$(REFERENCE_PROGRAMS)" bash tests/reference.sh $$n docs || exit 1; done
	$(Q)BUILD=$(BUILD) OUT=$(OUT) REFERENCE_PROGRAMS="$(CUDA_HOST_PROGRAMS)" bash tests/reference.sh cuda-host

# ---- Packages -------------------------------------------------------------------------------

deps: ## install the Debian packages of build and tests that are missing
	$(Q)sh scripts/deps.sh build

deps-py: ## what the client tests need: build/venv, build/perf_analyzer
	$(Q)sh scripts/deps.sh clients
	+$(Q)$(MAKE) --no-print-directory build/venv/stamp build/perf_analyzer/stamp

conformance: deps ## exports, and suites of others (CELLBATCH_DATA), against the daemon
	+$(Q)$(MAKE) --no-print-directory $(all_cores) run-conformance

run-conformance: programs $(CONFORMANCE)
	$(Q)OUT=$(OUT) bash tests/conformance/run.sh

clients: programs deps-py ## real clients (tritonclient, perf_analyzer, reflection) against the daemon
	$(Q)OUT=$(OUT) bash tests/clients/run.sh

build/venv/stamp: tests/clients/requirements.txt
	$(Q)python3 -m venv build/venv
	$(Q)build/venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Apart from build/venv, where tritonclient has another version.
build/perf_analyzer/stamp: tests/clients/perf_analyzer.txt build/venv/stamp
	$(Q)rm -rf build/perf_analyzer
	$(Q)build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  --target build/perf_analyzer --requirement $<
	@touch $@

deps-neon: ## what test-neon needs: cross compiler, emulator, build/arm64
	$(Q)sh scripts/deps.sh neon
	+$(Q)$(MAKE) --no-print-directory build/arm64/stamp

# The libraries of another architecture, without telling dpkg of it.
build/arm64/stamp: scripts/cross-root.sh scripts/packages.txt
	$(Q)sh scripts/cross-root.sh arm64 build/arm64
	@touch $@

deps-peers: ## what bench-kernels and fuzz-models need: build/peers, Debian's PyTorch
	$(Q)sh scripts/deps.sh peers
	+$(Q)$(MAKE) --no-print-directory build/peers/stamp

build/peers/stamp: bench/peers/requirements.txt
	$(Q)python3 -m venv build/peers
	$(Q)build/peers/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

bench-kernels: programs deps-peers ## cells beside ONNX Runtime and PyTorch: docs/benchmarks/kernels.md
	$(Q)build/peers/bin/python bench/peers/compare.py --bench $(OUT)/cellbatch-bench \
	  --out docs/benchmarks/kernels.md $(BENCH_KERNELS)

bench-pictures: programs deps-peers ## pictures of many widths beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) $(BENCH_PICTURES)

bench-video: programs deps-peers ## videos of many lengths beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) --document video $(BENCH_VIDEO)

bench-cells: programs deps-peers ## cells of one's own beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/pictures.py --build $(OUT) --document cells $(BENCH_CELLS)

bench-transducers: programs deps-peers ## a transducer, recordings and streams, beside ONNX Runtime: printed
	$(Q)build/peers/bin/python bench/peers/transducers.py --build $(OUT) $(BENCH_TRANSDUCERS)

bench-serving: programs deps-peers ## an LSTM asked by many beside ONNX Runtime, PyTorch and DyNet; LENGTHS=FILE: printed
	$(Q)build/peers/bin/python bench/peers/serving.py --bench $(OUT)/cellbatch-bench \
	  --lengths $(LENGTHS) $(BENCH_SERVING)

bench-readers: programs deps-peers ## readers beside ONNX Runtime and PyTorch: docs/benchmarks/readers.md
	$(Q)build/peers/bin/python bench/peers/readers.py --build $(OUT) \
	  --out docs/benchmarks/readers.md $(BENCH_READERS)

bench-cores: programs ## threads and teams on all cores: docs/benchmarks/cores.md
	$(Q)mkdir -p docs/benchmarks
	$(Q)OUT=$(OUT) scripts/bench-cores.sh > docs/benchmarks/cores.md

gpu-tools: ## scripts/gpu's programs for every target; needs nvcc and cuDNN, no GPU
	$(Q)scripts/gpu/floors.sh --build-only
	$(Q)scripts/gpu/peers.sh --build-only

gpu-cells: programs ## build/gpu/langid.cells, what scripts/gpu/engine.sh wants of a machine that can import models
	$(Q)mkdir -p build/gpu
	$(Q)$(OUT)/cellbatch-bench engine --model models/langid --write-cells build/gpu/langid.cells

cuda-gates: ## registers, spills and orders of the CUDA kernels; needs nvcc, no GPU
	$(Q)scripts/gpu/gates.sh

# ---- Checks without running: quiet when clean, remembered per file under build/lint ---------------

C_FOLDERS := base config cells scheduler worker server loadgen bench sim include examples tests
C_FILES   := $(sort $(wildcard $(foreach f,$(C_FOLDERS),$(foreach x,c h,\
  $(f)/*.$(x) $(f)/*/*.$(x) $(f)/*/*/*.$(x)))))
# Read by nvcc alone: their format, includes and calls are looked at, no more.
CUDA_FILES   := $(wildcard bench/gpu/*.cu bench/gpu/*.cuh cells/cuda/*.cu cells/cuda/*.cuh)
# Those that include CUDA's headers are read where the toolkit is.
ifneq ($(CUDA),1)
LINT_SKIP := cells/cuda/%_cuda.c cells/cuda/%_cuda.h cells/cuda/library.c cells/cuda/step_kernels.h
endif
LINT_SOURCES := $(filter-out $(LINT_SKIP),$(filter %.c,$(C_FILES)))
LINT_HEADERS := $(filter-out $(LINT_SKIP),$(filter %.h,$(C_FILES)))
SHELL_FILES  := $(wildcard scripts/*.sh scripts/*/*.sh tests/*.sh tests/*/*.sh .ci/run)

lint: ## all static checks; installs their tools
	$(Q)sh scripts/deps.sh build lint
	+$(Q)$(MAKE) --no-print-directory -k -O $(if $(filter -j%,$(MAKEFLAGS)),,-j2) lint-all
	@echo lint clean

lint-all: layers headers format-check text shellcheck tidy cppcheck

layers: ## includes against tests/layers.txt
	$(Q)awk -f tests/layers.awk tests/layers.txt $(filter-out tests/% examples/%,$(C_FILES)) $(CUDA_FILES)

# simd__neon.h by clang alone: gcc has a compiler for each architecture.
headers: $(LINT_HEADERS:%=build/lint/%.alone) ## each header compiles alone, gcc and clang

tidy: $(LINT_SOURCES:%=build/lint/%.tidy) ## clang-tidy

format: ## clang-format on every C file, in place
	$(Q)clang-format -i $(C_FILES) $(CUDA_FILES)

format-check:
	$(Q)clang-format --dry-run -Werror $(C_FILES) $(CUDA_FILES)

text:
	$(Q)bash scripts/check-text.sh $(C_FILES) $(CUDA_FILES)

shellcheck:
	$(Q)shellcheck $(SHELL_FILES)

cppcheck:
	@mkdir -p build/lint/cppcheck
	$(Q)cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --error-exitcode=1 --cppcheck-build-dir=build/lint/cppcheck -I. -D_GNU_SOURCE \
	  $(filter-out tests/% examples/%,$(LINT_SOURCES))

# gcc's path analysis: slow, so only in check-long.
analyze: $(patsubst %,build/lint/%.analyzed,$(filter-out tests/%,$(LINT_SOURCES)))

# Each stamp brings a .d beside it that names the headers it depends on.
build/lint/%.alone: % $(OUT)/flags | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)for cc in $(if $(findstring __neon,$<),,gcc) clang; do \
	  echo '#include "$<"' | $$cc $(STD) -Werror -Wall -Wextra -Wpedantic $(call lint_flags,$(<:.h=.c)) \
	    $(PKG_CFLAGS) -fsyntax-only -MMD -MP -MT $@ -MF $@.d -x c - || exit 1; \
	done
	@touch $@

# The analyzer looks at up to TIDY_NODES states of each function that calls others, 225,000 if nothing is said: 75,000
# take a third of the time. Paths through tests are analysed within functions alone: they run under
# sanitizers (check-long).
TIDY_NODES ?= 75000
build/lint/%.tidy: % .clang-tidy tests/.clang-tidy | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)clang-tidy --quiet $< -- $(STD) $(BOTH_WARNINGS) $(CLANG_WARNINGS) $(call lint_flags,$<) $(PKG_CFLAGS) \
	  -Xclang -analyzer-config -Xclang $(if $(filter tests/%,$<),mode=shallow,max-nodes=$(TIDY_NODES)) > $@.log 2>&1 || \
	  { cat $@.log; exit 1; }
	$(Q)clang $(STD) $(call lint_flags,$<) $(PKG_CFLAGS) -MM -MP -MT $@ -MF $@.d $<
	@touch $@

build/lint/%.analyzed: % | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(Q)gcc $(STD) -Werror -fanalyzer -O1 $(call isa_flags,$<) $(PKG_CFLAGS) -MMD -MP -MT $@ \
	  -MF $@.d -c $< -o /dev/null
	@touch $@

-include $(LINT_SOURCES:%=build/lint/%.analyzed.d)
-include $(LINT_SOURCES:%=build/lint/%.tidy.d) $(LINT_HEADERS:%=build/lint/%.alone.d)

# ---- Installation: PREFIX for the programs, DESTDIR for packages ---------------------------------

PREFIX  ?= /usr/local
DESTDIR ?=

BIN_DIR    = $(DESTDIR)$(PREFIX)/bin
INCLUDE_DIR = $(DESTDIR)$(PREFIX)/include
DOC_DIR    = $(DESTDIR)$(PREFIX)/share/doc/cellbatch
UNIT_DIR   = $(DESTDIR)$(PREFIX)/lib/systemd/system
LIB_DIR    = $(DESTDIR)$(PREFIX)/lib
CONFIG_DIR = $(DESTDIR)/etc/cellbatch
STATE_DIR  = $(DESTDIR)/var/lib/cellbatch

install: programs ## programs, header for plug-ins, documents, systemd unit; PREFIX=/usr/local DESTDIR=
	$(Q)install -d $(BIN_DIR) $(DOC_DIR)/docs $(UNIT_DIR) $(CONFIG_DIR)
	$(Q)for program in $(PROGRAMS); do install -m 755 $$program $(BIN_DIR) || exit 1; done
	$(if $(filter 1,$(CUDA)),$(Q)install -d $(LIB_DIR) && install -m 755 $(CUDA_LIBRARY) $(LIB_DIR))
	$(Q)install -m 644 LICENSE README.md $(DOC_DIR)
	$(Q)install -m 644 docs/*.md $(DOC_DIR)/docs
	$(Q)install -d $(INCLUDE_DIR)/cellbatch
	$(Q)install -m 644 include/cellbatch/*.h $(INCLUDE_DIR)/cellbatch
	$(Q)sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/cellbatch.service > $(UNIT_DIR)/cellbatch.service
	$(Q)chmod 644 $(UNIT_DIR)/cellbatch.service
	$(Q)[ -e $(CONFIG_DIR)/cellbatch.yaml ] || \
	  install -m 644 packaging/cellbatch.yaml $(CONFIG_DIR)/cellbatch.yaml

install-models: ## the demo models into /var/lib/cellbatch
	$(Q)install -d $(STATE_DIR)
	$(Q)cp -r models $(STATE_DIR)/

uninstall: ## what install put there, but not configuration and models
	$(Q)rm -f $(addprefix $(BIN_DIR)/,$(notdir $(PROGRAMS))) $(LIB_DIR)/$(notdir $(CUDA_LIBRARY)) $(UNIT_DIR)/cellbatch.service
	$(Q)rm -rf $(DOC_DIR) $(INCLUDE_DIR)/cellbatch

# ---- The rest -------------------------------------------------------------------------------

clean: ## remove build/
	$(Q)rm -rf build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

FORCE:

.PHONY: all programs cuda-library test test-avx512 test-neon fuzz run-fuzz fuzz-models demo check-long run-tests run-avx512 run-emulated conformance run-conformance deps deps-py \
  deps-neon deps-peers bench-kernels bench-pictures bench-video bench-cells bench-readers bench-serving bench-transducers bench-cores gpu-tools gpu-cells cuda-gates clients lint lint-all \
  layers headers tidy format format-check text shellcheck cppcheck analyze install install-models \
  uninstall clean help FORCE
