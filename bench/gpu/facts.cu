/* What the card and the way to it are, as the runtime and the kernel of the system tell. Nothing is
 * timed.
 *
 * hostNativeAtomicSupported says whether atomic additions of the card in host memory are atomic for
 * the CPU too; they are not over PCIe, and nothing here makes any. */
#include "bench/gpu/floor.cuh"

#include <cctype>
#include <fstream>

/* A file below the card's folder in /sys, its first line; "unknown" when it is not there. */
static std::string of_bus(const char *name)
{
    char id[32] = "";
    TRY(cudaDeviceGetPCIBusId(id, sizeof(id), 0));
    std::string folder = id;
    for (char &c : folder) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    std::ifstream file("/sys/bus/pci/devices/" + folder + "/" + name);
    std::string line;
    return std::getline(file, line) && !line.empty() ? line : "unknown";
}

static void add_card(const rig &r, json_line &line)
{
    int driver = 0, runtime = 0;
    TRY(cudaDriverGetVersion(&driver));
    TRY(cudaRuntimeGetVersion(&runtime));
    line.string("name", r.about.name);
    line.number("compute_capability", r.about.major + 0.1 * r.about.minor);
    line.number("driver_cuda", driver);
    line.number("runtime_cuda", runtime);
    line.number("sms", r.sms());
    line.number("l2_mib", r.about.l2CacheSize / 1048576.0);
    line.number("memory_gib", static_cast<double>(r.about.totalGlobalMem) / 1073741824.0);
    line.number("shared_kib_per_sm",
                static_cast<double>(r.about.sharedMemPerMultiprocessor) / 1024.0);
    line.number("shared_kib_per_block",
                static_cast<double>(r.about.sharedMemPerBlockOptin) / 1024.0);
    line.number("registers_per_sm", r.about.regsPerMultiprocessor);
    line.number("sm_mhz_max", r.attribute(cudaDevAttrClockRate) / 1000.0);
    line.number("memory_mhz_max", r.attribute(cudaDevAttrMemoryClockRate) / 1000.0);
    line.number("memory_bus_bits", r.attribute(cudaDevAttrGlobalMemoryBusWidth));
}

static void add_abilities(const rig &r, json_line &line)
{
    line.flag("host_native_atomics", r.attribute(cudaDevAttrHostNativeAtomicSupported) != 0);
    line.flag("cooperative_launch", r.attribute(cudaDevAttrCooperativeLaunch) != 0);
    line.flag("pageable_memory_access", r.attribute(cudaDevAttrPageableMemoryAccess) != 0);
    line.flag("host_register", r.attribute(cudaDevAttrHostRegisterSupported) != 0);
    line.number("async_engines", r.attribute(cudaDevAttrAsyncEngineCount));
    line.number("compute_mode", r.attribute(cudaDevAttrComputeMode));
    line.number("compute_preemption", r.attribute(cudaDevAttrComputePreemptionSupported));
    line.number("blocks_per_sm", r.attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
}

int main()
{
    return run_all("facts", [](rig &r) {
        const auto nothing = [](json_line &) {};
        r.run("card", nothing, [&](json_line &line) { add_card(r, line); });
        r.run("abilities", nothing, [&](json_line &line) { add_abilities(r, line); });
        r.run("bus", nothing, [&](json_line &line) {
            line.string("link_speed", of_bus("current_link_speed"));
            line.string("link_speed_max", of_bus("max_link_speed"));
            line.string("link_width", of_bus("current_link_width"));
            line.string("link_width_max", of_bus("max_link_width"));
            line.string("numa_node", of_bus("numa_node"));
            line.string("local_cpus", of_bus("local_cpulist"));
        });
    });
}
