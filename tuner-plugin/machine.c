/*
 * The machine key and the profile folders. Asks BRAID_TOPO, else sysfs through the topology, then the driver's files, then CUDA where the
 * process uses it. No state, any thread.
 * Called by: tuner_setup.c, tools/braid-tune.
 */
#include "tuner-plugin/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/param.h"
#include "common/topo/topo.h"

#define GPU_DIR "/proc/driver/nvidia/gpus"

/* "NVIDIA H100 80GB HBM3" becomes "h100": the first word that holds a digit, up to a dash. */
void braid_machine_model(const char *line, char *model, size_t model_bytes)
{
    while (*line) {
        size_t length = strcspn(line, " \t\n-"), i;

        for (i = 0; i < length && !isdigit((unsigned char)line[i]); i++)
            ;
        if (length && i < length && length < model_bytes) {
            for (i = 0; i < length; i++)
                model[i] = (char)tolower((unsigned char)line[i]);
            model[length] = 0;
            return;
        }
        line += length + (line[length] != 0);
    }
}

static void read_model(const char *bus, char *model, size_t model_bytes)
{
    char path[300], line[256];
    FILE *file;

    snprintf(path, sizeof(path), GPU_DIR "/%.200s/information", bus);
    file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "Model:", 6)) {
            braid_machine_model(line + 6, model, model_bytes);
            break;
        }
    }
    fclose(file);
}

static void read_gpu(char *model, size_t model_bytes)
{
    DIR *dir = opendir(GPU_DIR);
    struct dirent *entry;

    if (!dir)
        return;
    while (!model[0] && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.')
            read_model(entry->d_name, model, model_bytes);
    }
    closedir(dir);
}

/* Containers may hide sysfs and the driver's files; a job has CUDA loaded and running, and only then it is asked. */
static void ask_cuda(char *model, size_t model_bytes)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*get)(int *, int), (*name)(char *, int, int), device;
    char line[256];

    if (!cuda)
        return;
    *(void **)&get = dlsym(cuda, "cuDeviceGet");
    *(void **)&name = dlsym(cuda, "cuDeviceGetName");
    if (get && name && !get(&device, 0) && !name(line, sizeof(line), device))
        braid_machine_model(line, model, model_bytes);
    dlclose(cuda);
}

/* What BRAID_TOPO describes, when that has GPUs and says which: files for NCCL often hold only PCIe switches. */
static bool described(struct braid_topo_summary *summary)
{
    const char *setting = braid_param_str(BRAID_P_TOPO);
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;
    char text[400];

    if (!setting[0])
        return false;
    if (braid_topo_load(setting, &topo, &error)) {
        BRAID_WARN("tuner: topology %s; the machine is looked at instead",
                   braid_topo_error_format(&error, text, sizeof(text)));
        return false;
    }
    braid_topo_summarise(topo, summary);
    braid_topo_destroy(topo);
    return summary->gpu[0] != 0;
}

/* By sysfs alone, which takes about a millisecond; NVML would name the GPU but takes far longer. */
static bool seen(struct braid_topo_summary *summary)
{
    const struct braid_topo_live live = {.use = BRAID_TOPO_USE_SYSFS};
    struct braid_topo *topo = NULL;

    if (braid_topo_load_live(&live, &topo, NULL, 0, NULL))
        return false;
    braid_topo_summarise(topo, summary);
    braid_topo_destroy(topo);
    return true;
}

/* Every version of NCCL's network interface begins with the plugin's name. */
static bool is_braids(void *arg, const void *address)
{
    const char *name = *(const char *const *)address;

    (void)arg;
    return name && !strcmp(name, "Braid");
}

/* Sockets by Braid's network plugin, which NCCL loads before it asks a tuner, are another transport than NCCL's own. */
static const char *socket_word(void)
{
    const char *asked = braid_param_nccl_env("NCCL_NET");

    if (asked && strcasecmp(asked, "Braid"))
        return "socket";
    return braid_dl_each_loaded("ncclNetPlugin_v8", is_braids, NULL) ? "braid-socket" : "socket";
}

static void read_topology(struct braid_machine_key *key)
{
    struct braid_topo_summary summary;

    snprintf(key->net, sizeof(key->net), "%s", socket_word());
    if (!described(&summary) && !seen(&summary))
        return;
    snprintf(key->gpu, sizeof(key->gpu), "%s", summary.gpu);
    if (!strcmp(summary.net_kind, "ib") || !strcmp(summary.net_kind, "roce") ||
        !strcmp(summary.net_kind, "efa"))
        snprintf(key->net, sizeof(key->net), "%s", summary.net_kind);
}

void braid_machine_key_read(struct braid_machine_key *key)
{
    memset(key, 0, sizeof(*key));
    read_topology(key);
    if (!key->gpu[0])
        read_gpu(key->gpu, sizeof(key->gpu));
    if (!key->gpu[0])
        ask_cuda(key->gpu, sizeof(key->gpu));
}

static void append_dir(char *dirs, size_t dirs_bytes, const char *base, const char *rest)
{
    size_t used = strlen(dirs);

    if (base[0])
        snprintf(dirs + used, dirs_bytes - used, "%s%s%s", used ? ":" : "", base, rest);
}

/* The folder of the plugin or program that this code is part of. dladdr names a program as it was called, perhaps without a folder. */
static bool find_own_folder(char *folder)
{
    Dl_info info;
    char *slash;

    if (!dladdr((void *)braid_profile_dirs, &info) || !info.dli_fname)
        return false;
    if (!realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", folder))
        return false;
    slash = strrchr(folder, '/');
    *slash = 0;
    return true;
}

char *braid_profile_dirs(char *dirs, size_t dirs_bytes)
{
    char user[PATH_MAX] = "", buf[4096], here[PATH_MAX];
    struct passwd entry, *found = NULL;

    snprintf(dirs, dirs_bytes, "%s", braid_param_str(BRAID_P_PROFILE_DIRS));
    if (!getpwuid_r(geteuid(), &entry, buf, sizeof(buf), &found) && found)
        snprintf(user, sizeof(user), "%s", entry.pw_dir);
    append_dir(dirs, dirs_bytes, user, "/.local/share/braid/profiles");
    if (find_own_folder(here)) {
        /* <prefix>/lib/x.so and <prefix>/bin/x, and <prefix>/lib/<triplet>/x.so as on Debian. */
        append_dir(dirs, dirs_bytes, here, "/../share/braid/profiles");
        append_dir(dirs, dirs_bytes, here, "/../../share/braid/profiles");
    }
    return dirs;
}
