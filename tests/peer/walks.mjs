// Lines {"schema", "text"} to lines {"is": "valid" | "invalid" | "cannot judge", "why"}, by ajv.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
const require = createRequire(process.argv[2].replace(/\/?$/, '/'));
const addFormats = require('ajv-formats').default;
const kinds = [
    ['draft-04', null], ['2020-12', require('ajv/dist/2020').default], ['2019-09', require('ajv/dist/2019').default],
    ['', require('ajv').default],
];
function validatorOf(schema) {
    const uri = String(schema.$schema ?? '2020-12');
    const [, Ajv] = kinds.find(([name]) => uri.includes(name));
    if (!Ajv) return null;
    const ajv = new Ajv({ strict: false, allErrors: false, logger: false, validateFormats: true });
    addFormats(ajv);
    return ajv.compile(schema);
}
for await (const line of createInterface({ input: process.stdin })) {
    const { schema, text } = JSON.parse(line);
    let out = { is: 'cannot judge' };
    try {
        const validate = validatorOf(schema);
        if (validate) out = validate(JSON.parse(text)) ? { is: 'valid' } : { is: 'invalid', why: JSON.stringify(validate.errors?.[0]) };
    } catch { /* a schema that ajv cannot read */ }
    console.log(JSON.stringify(out));
}
