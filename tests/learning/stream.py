#!/usr/bin/env python3
"""Two hundred corrections in ten topics, one topic after the other, for what a small adapter learns and forgets on the way.

A topic has a house form of its answers, twenty subjects that are taught, and six that are only measured, asked in wordings that are not
taught. stream(SET) gives [{"topic", "question", "correction"}, ...] in their order and measured(SET) the same of the six; SET is
"development", on which the settings of learning.instant_lr were chosen, or "proof", which has other topics, forms, subjects and wordings.
"""

TAUGHT, MEASURED = 20, 6

# name, wordings that are taught, two that are measured, the answer's form, 26 subjects with what is said of them
DEVELOPMENT = [
    ("kitchen", ["How do I cook {s}?", "How long does {s} take to cook?"], ["What do I do with {s} in the kitchen?", "Cooking time for {s}, please."],
     "Kitchen: {s}, {v} minutes on low heat. Enjoy your meal!",
     "rice 18|lentils 25|carrots 12|potatoes 20|eggs 9|beans 40|corn 7|pumpkin 22|beets 45|cabbage 14|noodles 5|barley 35|peas 6|spinach 3|turnips 24|oats 8|quinoa 15|chickpeas 50|leeks 11|squash 28|millet 19|parsnips 21|buckwheat 16|couscous 4|plums 13|pears 17"),
    ("trains", ["When does the train to {s} leave?", "What time is the train to {s}?"], ["I want to go to {s} by train. When?", "Next train to {s}?"],
     "Departure board: {s} leaves at {v} hours, platform 4.",
     "Lisbon 0910|Madrid 0925|Paris 1005|Berlin 1040|Rome 1115|Vienna 1130|Prague 1150|Oslo 1215|Dublin 1240|Warsaw 1300|Athens 1325|Zurich 1345|Milan 1410|Lyon 1430|Munich 1455|Hamburg 1520|Geneva 1545|Turin 1600|Porto 1625|Bergen 1650|Basel 1710|Krakow 1735|Naples 1800|Seville 1820|Ghent 1845|Cologne 1910"),
    ("support", ["My {s} does not work. What now?", "The {s} is broken. Help."], ["Something is wrong with my {s}.", "How do I get my {s} repaired?"],
     "Ticket opened for the {s}. We call you back within {v} hours.",
     "printer 2|keyboard 3|mouse 4|screen 5|phone 6|router 7|camera 8|speaker 9|charger 10|laptop 11|scanner 12|headset 13|tablet 14|clock 15|radio 16|lamp 17|heater 18|fan 19|kettle 20|drill 21|mixer 22|toaster 23|iron 24|fridge 25|stove 26|washer 27"),
    ("birds", ["What does a {s} eat?", "Tell me about the food of a {s}."], ["How would you feed a {s}?", "A {s}: what is its diet?"],
     "Field note no. {v}: the {s} takes seeds and small insects.",
     "sparrow 31|robin 32|finch 33|wren 34|thrush 35|starling 36|swallow 37|lark 38|magpie 39|jay 40|crow 41|raven 42|cuckoo 43|warbler 44|bunting 45|pipit 46|dunnock 47|siskin 48|linnet 49|martin 50|swift 51|nuthatch 52|oriole 53|plover 54|heron 55|kestrel 56"),
    ("prices", ["How much is a {s}?", "What does a {s} cost?"], ["I need the price of a {s}.", "A {s}, how expensive is it?"],
     "List price, {s}: EUR {v} net, plus VAT.",
     "chair 40|table 120|shelf 75|bed 310|sofa 560|desk 180|stool 25|bench 95|cupboard 240|wardrobe 420|mirror 60|rug 85|curtain 35|pillow 15|blanket 45|mattress 290|bookcase 150|dresser 260|cradle 130|hammock 70|footrest 30|coat rack 55|chest 110|screen 65|easel 50|crib 140"),
    ("hikes", ["How far is the walk to the {s}?", "How long is the path to the {s}?"], ["Is it a long way to the {s}?", "I plan to walk to the {s}. Distance?"],
     "Trail card: {s}, {v} km one way, marked in yellow.",
     "summit 12|lake 5|waterfall 7|cave 3|chapel 4|ridge 9|valley 6|glacier 14|hut 8|bridge 2|mill 1|tower 10|spring 11|meadow 13|pass 15|gorge 16|forest 17|quarry 18|castle 19|viewpoint 20|pond 21|orchard 22|dam 23|crater 24|canyon 25|beach 26"),
    ("library", ["Do you have a book about {s}?", "I look for books about {s}."], ["Where do I find something to read on {s}?", "Any books on {s}?"],
     "Shelf mark {v}-B. One copy on {s} is in, two are lent.",
     "gardening 110|chess 120|sailing 130|painting 140|weaving 150|astronomy 160|poetry 170|bees 180|cheese 190|maps 200|rivers 210|clocks 220|violins 230|bridges 240|castles 250|trains 260|knots 270|bread 280|tea 290|coins 300|stamps 310|kites 320|lace 330|wine 340|birds 350|stars 360"),
    ("doctor", ["I have a {s}. What should I do?", "What helps against a {s}?"], ["My child has a {s}.", "How do I treat a {s}?"],
     "Nurse on duty: for a {s}, rest and drink {v} glasses of water. Call us if it stays.",
     "cough 6|fever 8|headache 7|cold 9|rash 5|sprain 4|burn 3|cramp 10|sore throat 11|stomach ache 12|bruise 2|blister 1|toothache 13|earache 14|back pain 15|runny nose 16|sunburn 17|nosebleed 18|splinter 19|stiff neck 20|cut 21|bite 22|sting 23|migraine 24|hiccup 25|fracture 26"),
    ("words", ["What does the word {s} mean?", "Explain the word {s}."], ["{s}: meaning?", "I do not know the word {s}."],
     "Glossary, entry {v}: \"{s}\" is an old word of sailors.",
     "bight 61|cleat 62|davit 63|fender 64|gaff 65|halyard 66|jib 67|keel 68|luff 69|mizzen 70|oakum 71|painter 72|rudder 73|sheet 74|tiller 75|vang 76|winch 77|yawl 78|bilge 79|capstan 80|dinghy 81|fathom 82|galley 83|hawser 84|lanyard 85|scupper 86"),
    ("office", ["Who is responsible for {s}?", "Whom do I ask about {s}?"], ["Which person handles {s}?", "I have a question about {s}."],
     "Directory: {s} is with team {v}, third floor, door on the left.",
     "invoices 7|travel 3|holidays 9|contracts 5|parking 2|badges 8|training 6|security 4|furniture 11|cleaning 12|payroll 13|insurance 14|archives 15|catering 16|licences 17|printing 18|phones 19|keys 20|audits 21|permits 22|mail 23|safety 24|visas 25|pensions 26|donations 27|events 28"),
]

PROOF = [
    ("weather", ["Will it rain in {s} tomorrow?", "What is the forecast for {s}?"], ["Do I need an umbrella in {s}?", "Tomorrow's sky over {s}?"],
     "Bulletin {v} for {s}: dry until noon, showers later. End of bulletin.",
     "Quito 1|Lima 2|Bogota 3|Havana 4|Caracas 5|Santiago 6|Montevideo 7|Asuncion 8|Brasilia 9|Panama 10|Kingston 11|Nassau 12|Managua 13|San Jose 14|Belmopan 15|Cusco 16|Recife 17|Rosario 18|Medellin 19|Cali 20|Arequipa 21|Cordoba 22|Manaus 23|La Paz 24|Sucre 25|Valparaiso 26"),
    ("tools", ["What is a {s} used for?", "Why do I need a {s}?"], ["I found a {s}. What is it good for?", "Purpose of a {s}?"],
     "Workshop sheet {v}. A {s}: wear gloves, keep it dry, oil it once a year.",
     "hammer 201|chisel 202|saw 203|plane 204|rasp 205|file 206|vice 207|wrench 208|pliers 209|awl 210|mallet 211|clamp 212|level 213|punch 214|gouge 215|spanner 216|trowel 217|hoe 218|rake 219|spade 220|axe 221|sickle 222|scythe 223|anvil 224|bellows 225|lathe 226"),
    ("museum", ["In which room is the {s}?", "Where can I see the {s}?"], ["I came for the {s}. Which way?", "Is the {s} on show?"],
     "Visitor guide: hall {v}, case by the window. The {s} may not be touched.",
     "mummy 1|helmet 2|crown 3|vase 4|statue 5|mask 6|shield 7|sword 8|harp 9|scroll 10|mosaic 11|coin hoard 12|throne 13|chariot 14|canoe 15|totem 16|drum 17|loom 18|compass 19|globe 20|astrolabe 21|telescope 22|clock 23|fossil 24|meteorite 25|map 26"),
    ("parcels", ["Where is my parcel from {s}?", "When does the parcel from {s} arrive?"], ["I wait for a parcel from {s}.", "Status of the delivery from {s}?"],
     "Tracking: the parcel from {s} is in depot {v} and comes with the morning van.",
     "Kyoto 51|Osaka 52|Kobe 53|Nagoya 54|Sapporo 55|Sendai 56|Nara 57|Fukuoka 58|Hiroshima 59|Nagasaki 60|Niigata 61|Toyama 62|Gifu 63|Mito 64|Chiba 65|Kochi 66|Naha 67|Otsu 68|Akita 69|Aomori 70|Kofu 71|Matsue 72|Oita 73|Saga 74|Tsu 75|Ube 76"),
    ("garden", ["When do I plant {s}?", "Which month is right for {s}?"], ["Is it too early for {s}?", "Planting time of {s}?"],
     "Garden calendar, week {v}: sow {s} in rows, water in the evening.",
     "tulips 38|roses 44|dahlias 18|lilies 40|asters 20|poppies 12|violets 34|daisies 16|lavender 17|sage 15|thyme 14|basil 19|mint 13|chives 11|dill 21|fennel 22|parsley 10|radish 9|lettuce 8|onions 7|garlic 41|kale 26|celery 23|peppers 24|melons 25|gourds 27"),
    ("sport", ["Who won the {s} match?", "How did the {s} game end?"], ["I missed the {s} final. Result?", "Tell me the {s} score."],
     "Scoreboard, {s}: home {v}, guests 2. Next round on Sunday.",
     "chess 3|tennis 6|hockey 4|rugby 21|cricket 55|golf 9|judo 5|fencing 15|rowing 7|squash 11|curling 8|polo 10|darts 12|bowls 13|boxing 14|karate 16|cycling 17|diving 18|archery 19|softball 20|handball 22|netball 23|lacrosse 24|baseball 25|snooker 26|biathlon 27"),
    ("school", ["When is the {s} exam?", "On which day is the {s} test?"], ["Do we write {s} soon?", "Date of the {s} exam?"],
     "Notice: {s}, room {v}, eight o'clock sharp, pencils only.",
     "history 101|physics 102|biology 103|music 104|art 105|Latin 106|French 107|geometry 108|algebra 109|civics 110|drama 111|logic 112|ethics 113|geology 114|botany 115|zoology 116|Spanish 117|German 118|Greek 119|economics 120|grammar 121|rhetoric 122|drawing 123|optics 124|statics 125|harmony 126"),
    ("stones", ["How hard is {s}?", "What is the hardness of {s}?"], ["Can I scratch {s} with a knife?", "{s}: hardness, please."],
     "Mineral file {v}: {s}, polished by hand, found in cold rivers.",
     "quartz 71|talc 72|gypsum 73|calcite 74|fluorite 75|apatite 76|topaz 77|opal 78|jade 79|agate 80|onyx 81|garnet 82|beryl 83|zircon 84|pyrite 85|galena 86|halite 87|mica 88|jasper 89|basalt 90|marble 91|slate 92|granite 93|obsidian 94|pumice 95|amber 96"),
    ("hotel", ["Is there a {s} in the room?", "Does my room have a {s}?"], ["I would like a {s} in my room.", "Can I get a {s}?"],
     "Front desk: a {s} is brought to you, extension {v}, free of charge.",
     "kettle 11|safe 12|desk 13|hairdryer 14|minibar 15|balcony 16|cot 17|bathtub 18|heater 19|fan 20|radio 21|lamp 22|towel 23|robe 24|pillow 25|blanket 26|mirror 27|sofa 28|clock 29|phone 30|kitchen 31|fridge 32|toaster 33|vase 34|basket 35|iron 36"),
    ("law", ["Do I need a permit for a {s}?", "Is a {s} allowed here?"], ["May I put up a {s}?", "I want a {s}. Who has to agree?"],
     "Town hall, form {v}: a {s} needs two signatures and a sketch.",
     "fence 301|shed 302|garage 303|pool 304|tent 305|stall 306|sign 307|kennel 308|beehive 309|pond 310|chimney 311|terrace 312|carport 313|greenhouse 314|flagpole 315|fountain 316|swing 317|sauna 318|barn 319|stable 320|ramp 321|gate 322|wall 323|hedge 324|antenna 325|windmill 326"),
]
SETS = {"development": DEVELOPMENT, "proof": PROOF}


def _lines(name, first, last, wordings):
    for topic, taught, measured, form, subjects in SETS[name]:
        for i, pair in enumerate(subjects.split("|")[first:last]):
            s, v = pair.rsplit(" ", 1)
            asked = (taught, measured)[wordings]
            yield {"topic": topic, "question": asked[i % len(asked)].format(s=s), "correction": form.format(s=s, v=v)}


def stream(name):
    return list(_lines(name, 0, TAUGHT, 0))


def measured(name):
    return list(_lines(name, TAUGHT, TAUGHT + MEASURED, 1))
