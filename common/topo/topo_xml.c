/*
 * The binding to libexpat.so.1 (its interface has been stable since 2001, so the few functions used
 * are declared here). It is opened and not linked: plugins must load where it is absent, and a static
 * one built on a newer system would bring C library symbols that older systems lack.
 * DOCTYPE is refused, so no entity can expand or name a file.
 */
#include "common/topo/topo_xml.h"

#include "common/dl.h"
#include "common/topo/topo_build.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#define MAX_DEPTH 64

typedef void (*expat_start)(void *user, const char *name, const char **attributes);
typedef void (*expat_end)(void *user, const char *name);
typedef void (*expat_doctype)(void *user, const char *name, const char *system, const char *pub,
                              int has_internal_subset);

struct expat {
    void *(*create)(const char *encoding);
    void (*destroy)(void *parser);
    void (*set_user)(void *parser, void *user);
    void (*set_elements)(void *parser, expat_start start, expat_end end);
    void (*set_doctype)(void *parser, expat_doctype start);
    int (*parse)(void *parser, const char *text, int bytes, int last);
    int (*stop)(void *parser, unsigned char resumable);
    int (*error)(void *parser);
    const char *(*error_text)(int code);
    unsigned long (*line)(void *parser);
    unsigned long (*column)(void *parser);
};

static const struct braid_dl_symbol symbols[] = {
    BRAID_DL_SYMBOL(struct expat, create, XML_ParserCreate),
    BRAID_DL_SYMBOL(struct expat, destroy, XML_ParserFree),
    BRAID_DL_SYMBOL(struct expat, set_user, XML_SetUserData),
    BRAID_DL_SYMBOL(struct expat, set_elements, XML_SetElementHandler),
    BRAID_DL_SYMBOL(struct expat, set_doctype, XML_SetStartDoctypeDeclHandler),
    BRAID_DL_SYMBOL(struct expat, parse, XML_Parse),
    BRAID_DL_SYMBOL(struct expat, stop, XML_StopParser),
    BRAID_DL_SYMBOL(struct expat, error, XML_GetErrorCode),
    BRAID_DL_SYMBOL(struct expat, error_text, XML_ErrorString),
    BRAID_DL_SYMBOL(struct expat, line, XML_GetCurrentLineNumber),
    BRAID_DL_SYMBOL(struct expat, column, XML_GetCurrentColumnNumber),
};

struct braid_topo_xml {
    const struct expat *expat;
    void *parser;
    const char *name;
    const struct braid_topo_xml_handlers *handlers;
    void *user;
    const char **attributes;
    struct braid_topo_error *error;
    int depth;
    int rc;
};

static const struct expat *open_expat(char *why, size_t size)
{
    static const char *const names[] = {"libexpat.so.1", NULL};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct expat expat;
    static bool ready;

    pthread_mutex_lock(&lock);
    if (!ready)
        ready = braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &expat, why, size) == 0;
    pthread_mutex_unlock(&lock);
    return ready ? &expat : NULL;
}

static int fail_v(struct braid_topo_xml *xml, const char *fmt, va_list args)
{
    char text[160];

    if (xml->rc != 0)
        return xml->rc;
    vsnprintf(text, sizeof(text), fmt, args);
    xml->rc = braid_topo_fail(xml->error, -EINVAL, xml->name, (int)xml->expat->line(xml->parser),
                              (int)xml->expat->column(xml->parser) + 1, "%s", text);
    return xml->rc;
}

int braid_topo_xml_fail(struct braid_topo_xml *xml, const char *fmt, ...)
{
    va_list args;
    int rc;

    va_start(args, fmt);
    rc = fail_v(xml, fmt, args);
    va_end(args);
    return rc;
}

static void stop(struct braid_topo_xml *xml, int rc)
{
    if (xml->rc == 0)
        xml->rc = rc;
    xml->expat->stop(xml->parser, 0);
}

static void on_start(void *user, const char *name, const char **attributes)
{
    struct braid_topo_xml *xml = user;
    int rc;

    if (xml->rc != 0)
        return;
    xml->attributes = attributes;
    if (++xml->depth > MAX_DEPTH)
        rc = braid_topo_xml_fail(xml, "expected at most %d nested elements", MAX_DEPTH);
    else
        rc = xml->handlers->open(xml, xml->user, name);
    xml->attributes = NULL;
    if (rc != 0)
        stop(xml, rc);
}

static void on_end(void *user, const char *name)
{
    struct braid_topo_xml *xml = user;
    int rc;

    if (xml->rc != 0)
        return;
    xml->depth--;
    rc = xml->handlers->close(xml, xml->user, name);
    if (rc != 0)
        stop(xml, rc);
}

static void on_doctype(void *user, const char *name, const char *system, const char *pub,
                       int has_internal_subset)
{
    struct braid_topo_xml *xml = user;

    stop(xml, braid_topo_xml_fail(xml, "expected no DOCTYPE in a topology file"));
}

int braid_topo_xml_parse(const char *text, size_t bytes, const char *name,
                         const struct braid_topo_xml_handlers *handlers, void *user,
                         struct braid_topo_error *error)
{
    char why[128] = "";
    struct braid_topo_xml xml = {.expat = open_expat(why, sizeof(why)),
                                 .name = name,
                                 .handlers = handlers,
                                 .user = user,
                                 .error = error};

    if (xml.expat == NULL)
        return braid_topo_fail(error, -ENOSYS, name, 0, 0,
                               "needs libexpat.so.1 (package libexpat1 or expat) to be read: %s",
                               why);
    if (bytes > BRAID_TOPO_MAX_FILE_BYTES)
        return braid_topo_fail(error, -E2BIG, name, 0, 0, "is larger than %d MiB",
                               BRAID_TOPO_MAX_FILE_BYTES >> 20);
    xml.parser = xml.expat->create(NULL);
    if (xml.parser == NULL)
        return braid_topo_fail(error, -ENOMEM, name, 0, 0, "out of memory");
    xml.expat->set_user(xml.parser, &xml);
    xml.expat->set_elements(xml.parser, on_start, on_end);
    xml.expat->set_doctype(xml.parser, on_doctype);
    if (xml.expat->parse(xml.parser, text, (int)bytes, 1) != 1 && xml.rc == 0)
        braid_topo_xml_fail(&xml, "expected well-formed XML: %s",
                            xml.expat->error_text(xml.expat->error(xml.parser)));
    xml.expat->destroy(xml.parser);
    return xml.rc;
}

const char *braid_topo_xml_attr(const struct braid_topo_xml *xml, const char *name)
{
    for (const char **a = xml->attributes; a != NULL && a[0] != NULL; a += 2)
        if (strcmp(a[0], name) == 0)
            return a[1];
    return NULL;
}
